"""What tells one job from another, so that only the same one is gone on with."""

from __future__ import annotations

import hashlib
import os
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._sources.table import UNTIMED, FileTable

if TYPE_CHECKING:
    from npyflow._flow.content import Content


def content_digest(content: Content, selection: Any) -> str:
    """Return a digest of a data set: its files with their times and headers, its labels, and how it is read."""
    digest = hashlib.sha256()
    _add(digest, [content.structure.tree, content.keys, content.classes, selection])
    for component in content.components:
        _add(digest, [getattr(component, one.name) for one in fields(component)])
    return digest.hexdigest()


def _add(digest: Any, value: Any) -> None:
    """Add a value; what is large is added as bytes."""
    if isinstance(value, np.ndarray):
        digest.update(repr((value.dtype.str, value.shape)).encode())
        digest.update(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data if value.size else b"")
    elif isinstance(value, FileTable):
        # As given, which from another folder would name other files.
        _add(digest, "" if os.path.isabs(value.paths[0]) else os.getcwd())
        _add(digest, tuple(value.paths))
        _add(digest, value.mtimes)
        # Packed data has no times in its manifest, but another pack may stand there now.
        _add(digest, [_now(path) for path, time in zip(value.paths, value.mtimes, strict=True) if time == UNTIMED])
        _add(digest, value.kinds)
        _add(digest, [header.raw for header in value.headers])
        _add(digest, repr(value.spans))
    elif isinstance(value, tuple) and value and all(isinstance(one, str) for one in value):
        digest.update("\0".join(value).encode("utf-8", "surrogateescape"))
    elif isinstance(value, list | tuple):
        digest.update(b"[")
        for one in value:
            _add(digest, one)
        digest.update(b"]")
    else:
        digest.update(f"{value!r}\0".encode("utf-8", "backslashreplace"))


def _now(path: str) -> tuple[int, int] | None:
    """Time and size of a file; None if it is gone, which whoever reads it will say."""
    try:
        facts = os.stat(path)
    except OSError:
        return None
    return facts.st_mtime_ns, facts.st_size
