"""The verdict: a table of rules, of which the first that applies decides. ``docs/choosing.md`` shows the same table."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from npyflow._core.text import human_bytes, plural
from npyflow._measure.facts import (
    BATCH_GAIN,
    EFFORT,
    EVEN,
    GAIN,
    MOST_EPOCHS,
    RAM_SHARE,
    SHORT_MS,
    Facts,
    clearly_faster,
    packed_path,
    tfrecord_path,
)
from npyflow._measure.result import Verdict, Way

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One line of the table.

    Parameters
    ----------
    name : str
    when : str
        In words: the condition of `applies`.
    says : str
        In words: what the user is told.
    applies : callable
    headline : callable
        The verdict in one sentence.
    commands : callable
        What to type.
    """

    name: str
    when: str
    says: str
    applies: Callable[[Facts], bool]
    headline: Callable[[Facts], str]
    commands: Callable[[Facts], tuple[str, ...]]


def judge(facts: Facts) -> Verdict:
    """Return the verdict: a pure function of what was measured."""
    rule = next(rule for rule in RULES if rule.applies(facts))
    best = facts.today if rule.name in ("model", "batch", "keep") else facts.choice
    return Verdict(
        rule=rule.name,
        best=best.name,
        headline=rule.headline(facts),
        reasons=tuple(_reasons(facts, rule, best)),
        commands=rule.commands(facts),
    )


def _times(facts: Facts, way: Way) -> str:
    ratio = way.examples_per_s / facts.today.examples_per_s
    return f"{ratio:.{1 if ratio >= 2 else 2}f} times as fast"


def _today(facts: Facts) -> str:
    return _WORDS.get(facts.today.name, facts.today.name)


def _reasons(facts: Facts, rule: Rule, best: Way) -> list[str]:
    """Why, with numbers."""
    today, found = facts.today, []
    if facts.bottleneck is not None:
        found.append(facts.bottleneck.text)
    found.append(
        f"Today: {_rate(today)} ({_today(facts)}), {today.mb_per_s:,.0f} MB/s; "
        f"an epoch of {plural(facts.examples, 'example')} takes {_duration(today.epoch_s)}."
    )
    if best is not today:
        found.append(f"{_upper(_WORDS[best.name])}: {_rate(best)}, an epoch takes {_duration(best.epoch_s)}.")
        found += facts.traits
    if rule.name == "ram":
        found.append(f"It is loaded at the start of each run, which takes about {_duration(today.epoch_s)}.")
    found += _about_packing(facts, rule)
    found += _about_others(facts, best, rule)
    recipe = facts.way("recipe")
    if recipe is not None:
        found.append(f"The usual recipe, {recipe.call}, reaches {_rate(recipe)}.")
    if facts.step_ms is None:
        found.append(
            f"A model whose step takes longer than {1000 * facts.batch_size / best.examples_per_s:.3g} ms for a batch "
            f"of {facts.batch_size} does not wait for this input; --step-ms says more."
        )
    return found


def _about_packing(facts: Facts, rule: Rule) -> list[str]:
    if facts.pack is None or rule.name != "pack":
        return []
    cost = f"Packing takes about {_duration(facts.pack.seconds)} and {human_bytes(facts.pack.bytes)} on disk, once"
    epochs = facts.pack.break_even_epochs
    return [cost + ("." if epochs is None else f"; it is paid back after {_epochs(epochs)}.")]


def _about_others(facts: Facts, best: Way, rule: Rule) -> list[str]:
    """Ways that are faster and were not chosen, and those that change nothing."""
    found = []
    for name, why in facts.refused.items():
        way = facts.way(name)
        if way is not None and clearly_faster(way, best):
            found.append(f"{_upper(_WORDS[name])} would be {_times(facts, way)}, but {why}.")
    if rule.name in ("keep", "batch"):
        others = [way for way in facts.ways if not way.today and not way.recipe and way.name not in facts.refused]
        if others:
            fastest = max(others, key=lambda way: way.examples_per_s)
            ratio = fastest.examples_per_s / facts.today.examples_per_s
            found.append(
                f"Nothing else is clearly faster: the best of the others, {_WORDS.get(fastest.name, fastest.name)}, "
                f"reaches {_rate(fastest)}, {ratio:.2f} times today's."
            )
    if rule.name in ("pack", "access", "ram", "convert") and facts.larger_batch is not None:
        larger = facts.larger_batch
        found.append(
            f"Larger batches help too: as it is read today, batches of {larger.batch_size:,} reach "
            f"{larger.examples_per_s:,.0f} examples/s."
        )
    return found


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _rate(way: Way) -> str:
    return f"{way.examples_per_s:,.0f} examples/s"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} minutes" if minutes < 90 else f"{minutes / 60:.1f} hours"


def _epochs(epochs: float) -> str:
    return "the first epoch" if epochs <= 1 else f"{plural(int(-(-epochs // 1)), 'epoch')}"


def _copying(facts: Facts, verb: str, target: str, option: str = "") -> str:
    if facts.options is None:
        return f"nf.{verb}(flow, {target!r}{', to=' + repr(option) if option else ''})"
    words = ["npyflow", verb, facts.path, target, *(["--to", option] if option else []), *facts.options]
    return " ".join(map(shlex.quote, words))


def _pack_commands(facts: Facts) -> tuple[str, ...]:
    return _copying(facts, "pack", packed_path(facts.path)), facts.choice.call


def _convert_commands(facts: Facts) -> tuple[str, ...]:
    return _copying(facts, "convert", tfrecord_path(facts.path), "tfrecord"), facts.choice.call


def _batch_headline(facts: Facts) -> str:
    larger = facts.larger_batch
    now = next(one for one in facts.batch_sizes if one.batch_size == facts.batch_size)
    if larger is None:
        return "Raise the batch size."
    return (
        f"Keep the files, and raise the batch size if your training allows it: batches of {larger.batch_size:,} are "
        f"{larger.examples_per_s / now.examples_per_s:.1f} times as fast, example by example."
    )


def _batch_commands(facts: Facts) -> tuple[str, ...]:
    size = facts.batch_size if facts.larger_batch is None else facts.larger_batch.batch_size
    return (facts.today.call.replace(f"({facts.batch_size},", f"({size},"),)


_WORDS = {
    "files": "a file an example, as they are",
    "npz": "members of archives, as they are",
    "mmap": "rows of mapped files",
    "read": "rows read by position",
    "ram": "all of it in RAM",
    "packed": "packed into few .npy files",
    "tfrecord": "TFRecord, read by TensorFlow",
    "recipe": "the usual recipe",
}

RULES: tuple[Rule, ...] = (
    Rule(
        name="model",
        when=f"`--step-ms` is given, and a batch is read in less than {1 - EVEN:.0%} of the step",
        says="Keep it as it is: the model is the bottleneck, and faster input would change nothing.",
        applies=lambda facts: facts.bottleneck is not None and facts.bottleneck.who == "model",
        headline=lambda facts: f"Keep it as it is ({_today(facts)}): the model is the bottleneck, not the input.",
        commands=lambda facts: (facts.today.call,),
    ),
    Rule(
        name="access",
        when=f"other access to the same files is clearly faster (at least {GAIN:.2f} times, beyond the noise)",
        says="Keep the files, and open them with that `access=`.",
        applies=lambda facts: not facts.choice.today and facts.choice.name in ("mmap", "read"),
        headline=lambda facts: (
            f"Keep the files, and open them with access={facts.choice.name!r}: {_times(facts, facts.choice)} as today."
        ),
        commands=lambda facts: (facts.choice.call,),
    ),
    Rule(
        name="pack",
        when=f"packed is clearly faster, there is room for a copy, and it pays back within {MOST_EPOCHS} epochs",
        says="Pack it; after how many epochs that is paid back.",
        applies=lambda facts: facts.choice.name == "packed" and not facts.choice.today,
        headline=lambda facts: f"Pack it: packed it is {_times(facts, facts.choice)} as today.",
        commands=_pack_commands,
    ),
    Rule(
        name="ram",
        when=f"in RAM is clearly faster than all above, and takes at most {RAM_SHARE:.0%} of the memory that is free",
        says="Cache it in RAM; what that takes.",
        applies=lambda facts: facts.choice.name == "ram" and not facts.choice.today,
        headline=lambda facts: (
            f"Cache it in RAM: {human_bytes(facts.total_bytes)}, and {_times(facts, facts.choice)} as today."
        ),
        commands=lambda facts: (
            *([] if "access=" in facts.choice.call or facts.opened == "flow" else [f"flow = {facts.opened}"]),
            facts.choice.call,
        ),
    ),
    Rule(
        name="convert",
        when="TFRecord is clearly faster than all above, and there is room for a copy",
        says="Convert it to TFRecord; shuffling is then that of a buffer.",
        applies=lambda facts: facts.choice.name == "tfrecord" and not facts.choice.today,
        headline=lambda facts: (
            f"Convert it to TFRecord: {_times(facts, facts.choice)} as today. It shuffles in a buffer only."
        ),
        commands=_convert_commands,
    ),
    Rule(
        name="batch",
        when=(
            f"no other way is clearly faster, a batch takes {SHORT_MS:g} ms or more, and larger ones are at least "
            f"{BATCH_GAIN:.2f} times as fast, example by example"
        ),
        says="Keep the files; raise the batch size if the training allows it, and to what.",
        applies=lambda facts: facts.larger_batch is not None,
        headline=_batch_headline,
        commands=_batch_commands,
    ),
    Rule(
        name="keep",
        when="nothing of this",
        says="Keep it as it is; by how much the best of the other ways differs.",
        applies=lambda facts: bool(facts.ways),
        headline=lambda facts: f"Keep it as it is ({_today(facts)}): no other way is clearly faster.",
        commands=lambda facts: (facts.today.call,),
    ),
)


def rules_table() -> str:
    """The rules as the table of ``docs/choosing.md``."""
    lines = ["| rule | when | what it says |", "|---|---|---|"]
    return "\n".join(lines + [f"| {rule.name} | {rule.when} | {rule.says} |" for rule in RULES])


def effort_words() -> str:
    """The order of preference, as ``docs/choosing.md`` names it."""
    return ", ".join(["today's way", *(_WORDS[name] for name in EFFORT)])
