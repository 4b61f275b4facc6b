"""Open a saved flow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npyflow._flow.flow import Flow
from npyflow._flow.view import View

if TYPE_CHECKING:
    import os


def load(path: str | os.PathLike[str]) -> Flow:
    """Open a flow that was saved with `Flow.save` or packed with `npyflow.pack`, without reading a header.

    Parameters
    ----------
    path : path
        The manifest, or the folder of packed data. Files below its folder are found where the folder is now.

    Returns
    -------
    Flow
        A file that has changed since the scan is noticed, and named, when it is read.

    Raises
    ------
    MissingFileError, FileFormatError
        If there is no manifest, or it is damaged or of another version.
    """
    from npyflow._flow.manifest import check_view, load_content

    content, selection, stats = load_content(path)
    view = View(content=content, selection=selection, examples=content.open())
    check_view(view, path)
    return Flow(view, stats)
