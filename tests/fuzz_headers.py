"""Headers at random, read by NumPy and by npyflow: where the two differ, the difference must be a documented one.

    python tests/fuzz_headers.py --count 1000000 --seed 7

A grammar writes headers as one could write them, right and wrong; some of them, and those of the corpus, are then
damaged. Every header gets the payload that it asks for, so that `np.load` has the last word. The same seed gives the
same headers. The documented differences are the table in ``docs/format.md``.
"""

from __future__ import annotations

import argparse
import ast
import io
import math
import random
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import npyflow as nf
from helpers import magic
from npyflow._format.header import Header, header_bytes, parse_header
from npyflow._format.literal import parse_literal

try:  # NumPy 2.3 moved it; read_array_header_1_0 and _2_0 are public, but there is none for version 3.0
    from numpy.lib._format_impl import _read_array_header as read_array_header
except ImportError:
    from numpy.lib.format import _read_array_header as read_array_header

CORPUS = Path(__file__).parent / "corpus" / "headers"
MAX_PAYLOAD = 1 << 16
MAX_SECONDS = 0.25
PAYLOAD = bytes(at * 7 % 251 for at in range(MAX_PAYLOAD))


# --- comparing ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """One header and what became of it; `text` is None where it has none."""

    data: bytes
    text: str | None
    ours: Header | None
    numpy_reads: bool


@dataclass(frozen=True)
class Outcome:
    """`kind` is "both", "neither", the name of a documented difference, or "difference"."""

    kind: str
    data: bytes
    note: str = ""


@dataclass(frozen=True)
class Documented:
    """A difference that is meant."""

    name: str
    reason: str
    holds: Callable[[Case], bool]


def _literal(case: Case) -> Any:
    return parse_literal(case.text or "")[0]


def _is_slip(case: Case) -> bool:
    """Written without its slips, NumPy reads the header."""
    if case.ours is None or not case.ours.slips or case.numpy_reads:
        return False
    repaired = magic(repr({**_literal(case), "shape": case.ours.shape}).encode("utf-8", "surrogatepass"), (3, 0))
    return compare(repaired).kind in ("both", "float8", "long header")


def _is_float8(case: Case) -> bool:
    return case.ours is not None and not case.numpy_reads and _literal(case)["descr"] in ("<f1", ">f1", "|f1")


def _is_long(case: Case) -> bool:
    return case.ours is not None and not case.numpy_reads and len(case.text or "") > 10_000


def _is_odd_long(case: Case) -> bool:
    """NumPy read it at its second attempt only, which drops an L after any number."""
    if case.ours is not None or not case.numpy_reads or case.text is None:
        return False
    try:
        ast.literal_eval(case.text)
    except SyntaxError:
        return True
    return False


def _is_overflow(case: Case) -> bool:
    """NumPy multiplied in 64 bits, or stopped at a zero."""
    if case.ours is not None or not case.numpy_reads:
        return False
    try:
        shape = _literal(case)["shape"]
    except (ValueError, KeyError, TypeError):
        return False
    return abs(math.prod(size or 1 for size in shape)) >= 1 << 63


def _is_blank_line(case: Case) -> bool:
    """Without what follows the last newline, NumPy reads the header."""
    if case.ours is None or case.numpy_reads:
        return False
    text = (case.text or "").rstrip(" \t\f")
    same = text == case.text or text[-1:] not in ("\n", "\r")
    encoding = "utf-8" if case.ours.version == (3, 0) else "latin-1"
    return not same and compare(magic(text.encode(encoding), case.ours.version)).kind != "difference"


DOCUMENTED = (
    Documented("slips", "what the header means is plain, and the size of the file confirms it", _is_slip),
    Documented("float8", "np.save writes 8 bit floats of other packages so, as bytes without a name", _is_float8),
    Documented("long header", "read in one pass, so 1 MiB is as safe as 10,000 characters", _is_long),
    Documented("odd longs", "Python 2 wrote 2L in decimal digits, never anything else with an L", _is_odd_long),
    Documented(
        "overflow", "such a product is no size, though NumPy makes an empty array of some of them", _is_overflow
    ),
    Documented("blank last line", "only Python takes spaces after the newline for an indented line", _is_blank_line),
)


def _ours(data: bytes) -> tuple[Header | None, float]:
    """Our header, None where it is refused, and the seconds that took; anything but FileFormatError escapes."""
    size = header_bytes(data)
    whole = size is not None and size <= len(data)
    start = time.perf_counter()
    try:
        header = parse_header(data[:size])
    except nf.FileFormatError:
        return None, time.perf_counter() - start
    seconds = time.perf_counter() - start
    # Objects are pickles: `np.load` refuses them here, and the scan of the files does.
    return header if whole and not header.dtype.hasobject else None, seconds


def _numpy_header(data: bytes) -> tuple[tuple[int, ...], bool, Any] | None:
    file = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(file)
        shape, fortran_order, dtype = read_array_header(file, version)
    except Exception:  # NumPy leaks what its tokenizer raises
        return None
    return None if dtype.hasobject else (shape, fortran_order, dtype)


def _numpy_array(data: bytes) -> Any:
    try:
        return np.load(io.BytesIO(data), allow_pickle=False)
    except Exception:
        return None


def _base(dtype: Any) -> Any:
    while dtype.subdtype is not None:
        dtype = dtype.base
    return dtype


def _same_bytes(a: Any, b: Any) -> bool:
    """Equal in every field; what lies between fields is not copied by NumPy."""
    if a.nbytes and a.dtype.names is not None:
        try:
            pairs = [(a[name], b[name]) for name in a.dtype.names]
        except ValueError:  # such a field has more than 64 axes, which neither can take out
            return True
        return all(_same_bytes(one, other) for one, other in pairs)
    return a.nbytes == 0 or bool(a.tobytes() == b.tobytes())


def _read(header: Header, payload: bytes) -> Any:
    order = "F" if header.fortran_order else "C"
    if not payload:
        return np.ndarray(header.shape, header.dtype, order=order)
    return np.ndarray(header.shape, header.dtype, payload, order=order)


def _both_read(header: Header, raw: bytes) -> tuple[bool, str]:
    """Whether NumPy reads it too, and how the results differ."""
    if header.payload_bytes > MAX_PAYLOAD:
        facts = _numpy_header(raw)
        if facts is None:
            return False, ""
        same = (facts[0], facts[1], _base(facts[2])) == (header.shape, header.fortran_order, header.dtype)
        return True, "" if same else f"NumPy's header is {facts}"
    payload = PAYLOAD[: header.payload_bytes]
    want, got = _numpy_array(raw + payload), _read(header, payload)
    if want is None:
        return False, ""
    if (want.shape, want.dtype, want.dtype.str) != (got.shape, got.dtype, got.dtype.str):
        return True, f"NumPy has {want.shape} of {want.dtype!r}"
    return True, "" if _same_bytes(want, got) else "the values differ"


def _only_numpy(raw: bytes) -> bool:
    """Whether NumPy reads what we refused."""
    facts = _numpy_header(raw)
    if facts is None:
        return False
    shape, _, dtype = facts
    try:
        count = int(np.multiply.reduce(shape, dtype=np.int64)) if shape else 1
    except OverflowError:
        return False
    if count * dtype.itemsize <= MAX_PAYLOAD:
        return _numpy_array(raw + PAYLOAD[: max(count * dtype.itemsize, 0)]) is not None
    # Too large to try; NumPy would get as far as its memory goes.
    fits = math.prod(shape) * dtype.itemsize < 1 << 63 and len(shape) <= 64 and dtype.itemsize == _base(dtype).itemsize
    return fits and all(type(size) is int and size >= 0 for size in shape)


def compare(data: bytes) -> Outcome:
    """Read one header both ways."""
    size = header_bytes(data)
    raw = data[:size]
    try:
        header, seconds = _ours(data)
        if seconds > MAX_SECONDS:  # a pause of the machine does not happen twice
            seconds = min(seconds, _ours(data)[1])
    except Exception as error:
        return Outcome("difference", data, f"{type(error).__name__} escaped: {error}")
    if seconds > MAX_SECONDS:
        return Outcome("difference", data, f"took {seconds:.2f} s")
    try:
        numpy_reads, note = _both_read(header, raw) if header is not None else (_only_numpy(raw), "")
    except Exception as error:
        return Outcome("difference", data, f"{type(error).__name__} where a header was accepted: {error}")
    if note:
        return Outcome("difference", data, note)
    if numpy_reads == (header is not None):
        return Outcome("both" if numpy_reads else "neither", data)
    case = Case(data, _text(raw), header, numpy_reads)
    name = next((known.name for known in DOCUMENTED if known.holds(case)), None)
    if name is not None:
        return Outcome(name, data)
    return Outcome("difference", data, "only NumPy reads it" if numpy_reads else "only npyflow reads it")


def _text(raw: bytes) -> str | None:
    try:
        return raw[10:].decode("latin-1") if raw[6:8] == b"\x01\x00" else raw[12:].decode("utf-8")
    except UnicodeDecodeError:
        return raw[12:].decode("latin-1") if raw[6:8] == b"\x02\x00" else None


# --- writing headers -----------------------------------------------------------------------------------------------

_SCALARS = [
    f"{order}{code}" for order in "<>=|" for code in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")
]
_OTHER_CODES = """<c8 >c16 |b1 <U5 >U3 <U0 |S7 S0 <M8[s] >m8[ns] <M8 <M8[3D] |V6 V0 <f16 >f16 <c32 <g ? f d float32 int
 bool <f1 >f1 |f1 f1 O |O object T bfloat16 f4,i4 3f4 (2,)f4 (1,)f4 a4 |S V U <U M8[fs/7] <f3 f44 <i2i2 nonsense f4,O
 |V4294967296 U99999999999 |u1|u1 ,f4 <f4, =?"""
_OTHERS = _OTHER_CODES.split()
_ODD_DESCRS = "7;None;();[];True;1.5;{'x': 1};('<f4',);('<f4', 3);('<f4', (2,), 1);['<f4'];..."
_ODD = _ODD_DESCRS.split(";")
_NAMES = ["x", "y", "x", "a b", "", "été", "名", "f0", "\\ud800", "\\0", "x" * 40]
_GAPS = ["", "", " ", " ", " ", "  ", "\t", "\n", "\r\n", "\f", " \n ", "\\\n", " # c\n", "\r", "\v", "\xa0", "\0"]
_SIZES = [0, 0, 1, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 10, 64, 255, 1 << 20, 1 << 31, 1 << 32, 1 << 40, 1 << 61, 1 << 62]
_PIECES = """( ) [ ] { } , : ' " ''' L l j e _ 0x 0b \\ \\x \\u \\U0011 \\N{DIGIT_ONE} + - * # \n ; np.int64( np.True_
 True False None 1.5 ... lambda: f'{1}' 2L u' b' rb' not if = . 99999999999999999999 -1 '<f4' 'shape' (6) \r \f \0
 \ufeff é \x80 \xff dtype('f4') array( np.float32(1)"""
_FRAGMENTS = [*_PIECES.split(" "), "\n", "\n ", " ", "\t", "0x" + "f" * 4_000, "9" * 4_400]


def _pick(rng: random.Random, common: Any, rare: Any, share: float) -> Any:
    return rng.choice(rare) if rng.random() < share else common


def _integer(rng: random.Random, value: int, odd: float) -> str:
    if rng.random() >= odd:
        return str(value)
    spelling = rng.randrange(16)
    if spelling < 4:
        return f"{value}L"
    if spelling < 7:
        name = rng.choice(["np.int64", "np.int32", "numpy.uint8", "np.intp", "np.int", "np.uint", "int"])
        return f"{name}({value})"
    others = [
        f"+{value}",
        f"-{value}",
        f"0{value}",
        f"{value:#x}",
        f"{value:#o}",
        f"{value:_}",
        f"{value}.0",
        f"({value})",
    ]
    return rng.choice([*others, f"{value} L", f"{value:#x}L", "True", "np.True_", "None", f"'{value}'", f"--{value}"])


def _string(rng: random.Random, text: str, odd: float) -> str:
    quote = "'" if rng.random() < 0.8 else '"'
    plain = f"{quote}{text}{quote}"
    if rng.random() >= odd:
        return plain
    at = rng.randrange(len(text) + 1)
    return rng.choice(
        [
            f"u{plain}",
            f"U{plain}",
            f"b{plain}",
            f"r{plain}",
            f"f{plain}",
            f"Rb{plain}",
            f"{quote * 3}{text}{quote * 3}",
            f"{quote}{text[:at]}{quote} {quote}{text[at:]}{quote}",
            f"{quote}{text[:at]}\\x{ord(text[at]) % 256:02x}{text[at + 1 :]}{quote}" if at < len(text) else plain,
            f"{quote}{text[:at]}\\u{ord(text[at]):04x}{text[at + 1 :]}{quote}" if at < len(text) else plain,
            f"{quote}{text[:at]}\\{text[at:]}{quote}",
            f"{quote}{text[:at]}\\\n{text[at:]}{quote}",
            f"{quote}{text[:at]}\0{text[at:]}{quote}",
            f"({plain})",
            text,
        ]
    )


def _tuple(rng: random.Random, items: list[str], odd: float) -> str:
    gap = _pick(rng, " ", _GAPS, odd)
    comma = "," if (len(items) == 1 and rng.random() >= odd) or rng.random() < 0.1 else ""
    opening, closing = _pick(rng, "()", ["[]", "{}", ("", ""), ("((", "))")], odd / 4)
    return f"{opening}{f',{gap}'.join(items)}{comma}{closing}"


def _shape(rng: random.Random, odd: float) -> str:
    axes = (
        rng.choice([0, 1, 1, 1, 2, 2, 2, 3, 3, 4, 5]) if rng.random() > 0.01 else rng.choice([32, 33, 63, 64, 65, 70])
    )
    sizes = [rng.choice(_SIZES[: 22 if rng.random() < odd else 13]) for _ in range(axes)]
    if rng.random() < odd / 4 and sizes:
        sizes[rng.randrange(axes)] *= -1
    return _tuple(rng, [_integer(rng, size, odd / 3) for size in sizes], odd / 3)


def _descr(rng: random.Random, odd: float, depth: int = 0) -> str:
    draw = rng.random()
    if draw < 0.7 or depth > 3:
        return _string(rng, _pick(rng, rng.choice(_SCALARS), _OTHERS, 0.35), odd / 4)
    if draw < 0.7 + odd / 10:
        return rng.choice(_ODD)
    if draw < 0.78:
        return f"({_descr(rng, odd, depth + 1)}, {_shape(rng, odd)})"
    return f"[{', '.join(_field(rng, odd, depth) for _ in range(rng.choice([0, 1, 1, 2, 2, 3, 4])))}]"


def _field(rng: random.Random, odd: float, depth: int) -> str:
    name = _string(rng, rng.choice(_NAMES) + _pick(rng, str(rng.randrange(9)), [""], 0.3), odd / 6)
    if rng.random() < 0.1:
        name = f"('title', {name})"
    shape = f", {_shape(rng, 0.2 * odd)}" if rng.random() < 0.3 else ""
    return f"({name}, {_descr(rng, odd, depth + 1)}{shape})"


def _header_text(rng: random.Random) -> str:
    odd = rng.choice([0.0, 0.1, 0.3, 0.6])
    fields = {
        "descr": _descr(rng, odd),
        "fortran_order": _pick(
            rng, rng.choice(["True", "False"]), ["0", "1", "None", "np.True_", "true", "'False'"], odd / 5
        ),
        "shape": _shape(rng, odd),
    }
    keys = list(fields)
    if rng.random() < 0.3:
        rng.shuffle(keys)
    if rng.random() < odd / 10:
        keys.append(rng.choice([*keys, "more"]))
    gap = _pick(rng, " ", _GAPS, odd)
    items = [f"{_string(rng, key, odd / 8)}:{gap}{fields.get(key, '1')}" for key in keys]
    text = f"{{{f',{gap}'.join(items)}{rng.choice(['', ',', ', '])}}}"
    if rng.random() < odd / 4:
        text = rng.choice(_GAPS) + rng.choice(_GAPS) + text
    text += _pick(rng, "", _GAPS, odd / 4)
    return text + " " * rng.choice([0, 0, 1, 5, 64]) + _pick(rng, "\n", ["", "\n\n", "\r\n", "\n "], 0.2)


def _frame(rng: random.Random, text: str, damaged: bool) -> bytes:
    # NumPy takes its time to refuse a text of version 1.0 or 2.0.
    version = rng.choice([(1, 0), (2, 0), (3, 0)] + [(3, 0)] * 4 * damaged)
    encoding = "utf-8" if version == (3, 0) or rng.random() < 0.1 else "latin-1"
    return magic(text.encode(encoding, "replace")[:65_000], version)


def _damage(rng: random.Random, text: str, other: str) -> str:
    """One change to a text: what it says may stay sensible."""
    at = rng.randrange(len(text) + 1)
    upto = min(len(text), at + rng.choice([1, 1, 1, 2, 4, 9]))
    action = rng.randrange(7)
    if action == 0:
        return text[:at] + chr(rng.randrange(256)) + text[upto:]
    if action == 1:
        return text[:at] + rng.choice(_FRAGMENTS) + text[at:]
    if action == 2:
        return text[:at] + text[upto:]
    if action == 3:
        return text[:at] + text[at:upto] * rng.choice([2, 2, 3, 40]) + text[upto:]
    if action == 4:
        cut = rng.randrange(len(other) + 1)
        return text[:at] + other[cut : cut + rng.randrange(30)] + text[upto:]
    if action == 5:
        return text[:at]
    return text[:at] + rng.choice(_FRAGMENTS) * rng.choice([1, 3, 33, 120]) + text[upto:]


def _damage_bytes(rng: random.Random, data: bytes) -> bytes:
    """A change that may hit the magic, the version and the length as well."""
    at = rng.randrange(min(len(data), 16 if rng.random() < 0.5 else 1 << 30) or 1)
    action = rng.randrange(3)
    if action == 0:
        return data[:at] + bytes([rng.choice([0, 1, 2, 3, 0x0A, 0xFF, rng.randrange(256)])]) + data[at + 1 :]
    return data[:at] if action == 1 else data[:at] + rng.randbytes(rng.randrange(4)) + data[at:]


def corpus() -> dict[str, bytes]:
    """The kept headers by file name."""
    return {path.name: path.read_bytes() for path in sorted(CORPUS.glob("*.header"))}


def headers(seed: int) -> Iterator[bytes]:
    """Headers without end."""
    rng = random.Random(seed)
    kept = [data[12 if data[6:7] != b"\x01" else 10 :].decode("latin-1") for data in corpus().values()]
    kept = [text for text in kept if len(text) < 600] or [""]
    while True:
        draw = rng.random()
        text = _header_text(rng) if draw < 0.93 else rng.choice(kept)
        if draw > 0.72:
            for _ in range(rng.choice([1, 1, 2, 4])):
                text = _damage(rng, text, rng.choice(kept))
        elif draw < 0.005:  # beyond what NumPy reads by default
            text += " " * rng.choice([9_900, 10_100, 30_000])
        data = _frame(rng, text, draw > 0.72)
        yield _damage_bytes(rng, data) if rng.random() < 0.08 else data


# --- the command ---------------------------------------------------------------------------------------------------


def fuzz(
    count: int, seed: int, seconds: float = math.inf, progress: bool = False
) -> tuple[Counter[str], list[Outcome]]:
    """Compare `count` headers, or as many as fit into `seconds`; return how many of each kind, and the differences."""
    kinds: Counter[str] = Counter()
    found: list[Outcome] = []
    start = shown = time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for done, data in enumerate(headers(seed)):
            now = time.monotonic() if done % 256 == 0 else start
            if done >= count or now - start > seconds:
                break
            if progress and now - shown > 10:
                shown = now
                _say(f"{done:,} headers, {done / (now - start):,.0f}/s, {len(found)} differences")
            outcome = compare(data)
            kinds[outcome.kind] += 1
            if outcome.kind == "difference":
                found.append(outcome)
    return kinds, found


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Compare random .npy headers with NumPy.")
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=math.inf)
    options = parser.parse_args(argv)
    start = time.monotonic()
    kinds, found = fuzz(options.count, options.seed, options.seconds, progress=True)
    took = time.monotonic() - start
    _say(f"{kinds.total():,} headers in {took:.0f} s, {kinds.total() / took:,.0f}/s, seed {options.seed}")
    for name in ["both", "neither", *(known.name for known in DOCUMENTED), "difference"]:
        _say(f"{kinds[name]:>12,}  {name}")
    for outcome in found[:50]:
        _say(f"{outcome.note}\n    {outcome.data[:600]!r}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
