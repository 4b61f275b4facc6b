"""The flow that the argument of a command names."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from npyflow._core.errors import OptionError
from npyflow._core.text import show_path
from npyflow._flow.files import files
from npyflow._flow.load import load
from npyflow._flow.rows import rows
from npyflow._jobs.stored import stored_flow, stored_format

if TYPE_CHECKING:
    from npyflow._flow.flow import Flow


def open_source(path: str, *, labels: str | None = None, pattern: str | None = None) -> Flow:
    """Open what a person names by one path.

    Parameters
    ----------
    path : str
        A folder or a pattern: its files are the examples. A ``.npy`` file: its rows are. A folder that npyflow wrote,
        or a manifest of `Flow.save`: as it is.
    labels : str, optional
        ``"directory"``: the first folder of each file's name is its class.
    pattern : str, optional
        Which files to take from a folder.

    Raises
    ------
    OptionError
        If an option does not go with the path.
    NpyflowError
        If it cannot be opened.
    """
    opened = stored_flow(path) if stored_format(path) else None
    opened = load(path) if opened is None and path.endswith(".json") else opened
    if opened is None and os.path.isfile(path):
        opened = rows(path)
    if opened is None:
        return files(path, labels=labels, pattern=pattern)
    if labels is not None or pattern is not None:
        raise OptionError(
            f"{show_path(path)}: --labels and --pattern are for a folder of files; this is "
            f"{'an array' if path.endswith('.npy') else 'a data set that knows its labels'}"
        )
    return opened
