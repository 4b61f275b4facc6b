"""Open a saved flow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npyflow._flow.flow import Flow
from npyflow._flow.view import View

if TYPE_CHECKING:
    import os


def load(path: str | os.PathLike[str]) -> Flow:
    """Open a flow that was saved with `Flow.save`, without reading a header or asking the file system.

    Parameters
    ----------
    path : path
        The manifest. Files below its folder are found where the folder is now.

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
