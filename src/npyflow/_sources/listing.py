"""From what a user names (a folder, a pattern, a list) to files with keys, in an order that names alone decide."""

from __future__ import annotations

import fnmatch
import os
import re
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from npyflow._core.errors import FileFormatError, MissingFileError, OptionError, PairingError
from npyflow._core.text import examples, natural_key, plural, show_path
from npyflow._format.schema import JOB_FOLDER

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

KEY = "{key}"

# What file managers, editors and archivers leave beside the data.
_LITTER = {"thumbs.db", "desktop.ini", "icon\r"}
_LITTER_DIRS = {"__MACOSX"}
_WILD = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The files that one component consists of.

    Parameters
    ----------
    root : str
        The folder that keys are relative to.
    paths : list of str
        In natural order of their keys; for a list given by the user, in the order of the list.
    keys : list of str
        Relative path without the suffix, with ``/`` on every system, or what ``{key}`` stands for.
    left_out : Counter
        Kind of file (``"hidden"``, ``"litter"``, ``"not matching"``) to how many were passed over.
    """

    root: str
    paths: list[str]
    keys: list[str]
    left_out: Counter[str] = field(default_factory=Counter)


def as_path_text(value: Any) -> str | None:
    """Return a path as text if `value` is one: str, bytes, ``PathLike``, a scalar string array or tensor."""
    if hasattr(value, "numpy"):  # a tf.Tensor, without importing TensorFlow
        value = value.numpy()
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        value = value.item()
    return os.fsdecode(value) if isinstance(value, str | bytes | os.PathLike) else None


def as_path_list(value: Any) -> list[str] | None:
    """Return paths as text if `value` is a list, an array or a tensor of them."""
    if hasattr(value, "numpy"):
        value = value.numpy()
    if hasattr(value, "tolist") and getattr(value, "dtype", None) is not None and value.dtype.kind in "USO":
        value = value.ravel().tolist()
    if not isinstance(value, list):
        return None
    paths = [as_path_text(item) for item in value]
    return None if any(path is None for path in paths) else [path for path in paths if path is not None]


def list_files(data: Any, pattern: str, argument: str) -> Listing:
    """List the files of one component.

    Parameters
    ----------
    data : path, glob pattern, pattern with ``{key}``, or list of paths
        A path that exists is itself before it is a pattern.
    pattern : str
        What to take from a folder.
    argument : str
        How messages call `data`.

    Raises
    ------
    MissingFileError
        If nothing is there.
    OptionError
        If `data` is nothing of the kind.
    """
    text = as_path_text(data)
    if text is not None:
        return _list_named(text, pattern)
    paths = as_path_list(data)
    if paths is None:
        raise OptionError(
            f"{argument}: expected a folder, a pattern or a list of paths, got {type(data).__name__}; "
            f"for arrays see npyflow.rows"
        )
    if not paths:
        raise MissingFileError(f"{argument} is an empty list; expected at least one path")
    return _list_given(paths)


def _list_given(paths: list[str]) -> Listing:
    """A list means the files themselves, in the order in which they were given."""
    folders = {os.path.dirname(path) for path in paths}
    root = os.path.commonpath(folders) if len({os.path.isabs(path) for path in paths}) == 1 else ""
    return Listing(root=root, paths=paths, keys=[_key(os.path.relpath(path, root or ".")) for path in paths])


def _list_named(text: str, pattern: str) -> Listing:
    if os.path.isdir(text):
        if os.path.isdir(os.path.join(text, JOB_FOLDER)):
            raise FileFormatError(
                f"{show_path(text)} is the target of a pack or convert that was not finished: run the same command "
                f"again to finish it, or delete it",
                path=text,
                kind="unfinished",
            )
        return _matching(text, pattern, f"{text}: no file in this folder matches pattern={pattern!r}")
    if os.path.exists(text):
        return Listing(root=os.path.dirname(text), paths=[text], keys=[_key(os.path.basename(text))])
    if not _is_wild(text):
        raise MissingFileError(
            f"{show_path(text)}: no such file or folder; {_nearest(text)}", path=text, kind="missing"
        )
    root, rest = _split_pattern(text)
    return _matching(root, rest, f"{text}: no file matches")


def expand(text: str) -> list[str]:
    """Return the files that a path or pattern names, in natural order: the shards of one array.

    Raises
    ------
    MissingFileError
        If there is none.
    """
    if os.path.isdir(text):
        raise MissingFileError(
            f"{show_path(text)} is a folder; npyflow.rows takes a file, a pattern such as "
            f"{show_path(os.path.join(text, '*.npy'))}, or a list; for a file an example see npyflow.files",
            path=text,
            kind="no-file",
        )
    return _list_named(text, "*").paths


def _split_pattern(text: str) -> tuple[str, str]:
    """Split at the last folder before the first wildcard; a folder that exists is itself, brackets or not."""
    parts = text.replace(os.sep, "/").split("/")
    root = "/" if text.startswith("/") else "."
    at = 0
    while at < len(parts) - 1 and (not _is_wild(parts[at]) or os.path.isdir(os.path.join(root, parts[at]))):
        root = os.path.join(root, parts[at]) if root != "." or at else parts[at] or root
        at += 1
    return root, "/".join(parts[at:])


def _is_wild(part: str) -> bool:
    return bool(_WILD.search(part)) or KEY in part


def _matching(root: str, pattern: str, nothing: str) -> Listing:
    regex, depth = _compile(pattern)
    left_out: Counter[str] = Counter()
    suffixes: Counter[str] = Counter()
    found: list[tuple[str, str]] = []
    if os.path.isdir(root):
        for name in _walk(root, depth, left_out):
            match = regex.fullmatch(name)
            if match is None:
                left_out["not matching"] += 1
                suffixes[os.path.splitext(name)[1]] += 1
            else:
                found.append((match["key"] if "key" in regex.groupindex else _key(name), name))
    if not found:
        kinds = examples((f"{count:,} {suffix or 'without suffix'}" for suffix, count in suffixes.most_common()), 3)
        seen = f"; it holds {plural(sum(left_out.values()), 'other file')}" if left_out else ""
        seen += f" ({kinds})" if kinds else ""
        seen += "; for .npz files pass members= or pattern='**/*.npz'" if suffixes[".npz"] else ""
        raise MissingFileError(f"{show_path(nothing)}{seen}; {_nearest(root)}", path=root, kind="missing")
    found.sort(key=lambda pair: natural_key(pair[0]))
    prefix = "" if root == "." else os.path.join(root, "")
    return Listing(
        root=root,
        paths=[prefix + name for _, name in found],
        keys=[key for key, _ in found],
        left_out=left_out,
    )


def _walk(root: str, depth: int | None, left_out: Counter[str]) -> Iterator[str]:
    """Yield relative file names with ``/``; count hidden files and litter.

    Links to folders are followed, except into a folder that is already open above.
    """
    pending: list[tuple[str, str, tuple[str, ...]]] = [(root, "", (os.path.realpath(root),))]
    while pending:
        folder, prefix, above = pending.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                name = entry.name
                if name.startswith("."):
                    left_out["hidden"] += 1
                elif name.lower() in _LITTER or name in _LITTER_DIRS:
                    left_out["litter"] += 1
                elif not _is_folder(entry):
                    yield prefix + name
                elif depth is None or prefix.count("/") + 1 < depth:
                    real = os.path.realpath(entry.path) if entry.is_symlink() else os.path.join(above[-1], name)
                    if real not in above:
                        pending.append((entry.path, f"{prefix}{name}/", (*above, real)))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself: no folder, and the scan will say what it is
        return False


@lru_cache(maxsize=64)
def _compile(pattern: str) -> tuple[re.Pattern[str], int | None]:
    """Translate a glob with ``**`` and ``{key}``; also how many folders deep it can match (None: any)."""
    if pattern.count(KEY) > 1:
        raise OptionError(f"pattern {pattern!r} has {{key}} more than once")
    parts = pattern.split("/")
    regex = "".join(
        (r"(?:[^/]+/)*" if not last else r".*") if part == "**" else _translate(part) + ("" if last else "/")
        for part, last in ((part, at == len(parts) - 1) for at, part in enumerate(parts))
    )
    deep = "**" in parts or KEY in pattern
    return re.compile(regex, re.DOTALL), None if deep else len(parts)


def _translate(part: str) -> str:
    out, at = [], 0
    while at < len(part):
        char = part[at]
        end = _class_end(part, at) if char == "[" else -1
        if part.startswith(KEY, at):
            out.append("(?P<key>.+)")
            at += len(KEY) - 1
        elif char in "*?":
            out.append("[^/]*" if char == "*" else "[^/]")
        elif end > 0:
            # Python's own translation of a class, without the frame that it puts around: (?s:...)\Z
            out.append(fnmatch.translate(part[at : end + 1])[4:-3])
            at = end
        else:
            out.append(re.escape(char))
        at += 1
    return "".join(out)


def _class_end(part: str, at: int) -> int:
    """Where the character class that opens at `at` closes: a bracket right after the opening is a member."""
    first = at + 1 + (part[at + 1 : at + 2] == "!")
    return part.find("]", first + 1)


def _key(name: str) -> str:
    """Relative path without the suffix."""
    stem, _ = os.path.splitext(name)
    return stem.replace(os.sep, "/")


def check_unique(keys: Sequence[str], paths: Sequence[str], argument: str) -> None:
    """Refuse two files with one key.

    Raises
    ------
    PairingError
        Names the keys and the files.
    """
    if len(set(keys)) == len(keys):
        return
    counts = Counter(keys)
    doubled = [key for key, count in counts.items() if count > 1]
    files = [show_path(path) for key, path in zip(keys, paths, strict=True) if key == doubled[0]]
    raise PairingError(
        f"{argument}: {plural(len(doubled), 'key')} more than once: {examples(map(show_path, doubled))}; "
        f"{show_path(doubled[0])} comes from {examples(files)}; a key must name one file: narrow pattern= or rename"
    )


def _nearest(path: str) -> str:
    """Name the nearest folder that exists, and what is in it."""
    parent = path
    while parent and not os.path.isdir(parent):
        up = os.path.dirname(parent.rstrip("/"))
        if up == parent:
            break
        parent = up
    parent = parent or "."
    try:
        names = sorted(os.listdir(parent), key=natural_key)
    except OSError:
        names = []
    inside = examples(map(show_path, names), 4) if names else "nothing"
    return f"the nearest folder, {show_path(parent)}, holds {inside}"
