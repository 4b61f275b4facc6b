"""Every error that npyflow raises on purpose.

* NpyflowError
  + FileError
    - MissingFileError      (FileNotFoundError)
    - MissingMemberError    (KeyError)
    - FileFormatError       (ValueError)
    - FileChangedError      (RuntimeError)
  + BadFilesError           (ValueError)
  + UnsupportedDtypeError   (TypeError)
  + CastError               (ValueError)
  + ShapeMismatchError      (ValueError)
  + PairingError            (ValueError)
  + OptionError             (ValueError)
  + IndexRangeError         (IndexError)
  + ClosedError             (RuntimeError)
  + MapError                (RuntimeError)
  + JobError                (RuntimeError)
  + MissingDependencyError  (ImportError)

The builtin in brackets is a second base, so ``except ValueError`` keeps working in code that does
not know npyflow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "BadFilesError",
    "CastError",
    "ClosedError",
    "FileChangedError",
    "FileError",
    "FileFormatError",
    "IndexRangeError",
    "JobError",
    "MapError",
    "MissingDependencyError",
    "MissingFileError",
    "MissingMemberError",
    "NpyflowError",
    "NpyflowWarning",
    "OptionError",
    "PairingError",
    "ShapeMismatchError",
    "UnsupportedDtypeError",
]


class NpyflowError(Exception):
    """Base of all npyflow errors.

    Attributes
    ----------
    path : str or None
        The file that the error is about, where there is exactly one.
    member : str or None
        The array inside that file, if the file is an ``.npz`` archive.
    index : int or None
        The example or row that the error is about, where there is exactly one.
    kind : str or None
        What is wrong with a file, in a word for programs: the first column of ``docs/errors.md``.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        member: str | None = None,
        index: int | None = None,
        kind: str | None = None,
    ) -> None:
        super().__init__(message)
        self.path = path
        self.member = member
        self.index = index
        self.kind = kind

    def __str__(self) -> str:
        return str(self.args[0])


class FileError(NpyflowError):
    """One file cannot be used."""


class MissingFileError(FileError, FileNotFoundError):
    """A path names nothing, or a pattern matches nothing."""


class MissingMemberError(FileError, KeyError):
    """An ``.npz`` archive has no array of that name."""


class FileFormatError(FileError, ValueError):
    """A file is no intact ``.npy`` or ``.npz`` file."""


class FileChangedError(FileError, RuntimeError):
    """A file is not the one that was scanned: its size, time or header differs, or it is gone."""


class BadFilesError(NpyflowError, ValueError):
    """Several files cannot be used.

    Attributes
    ----------
    problems : tuple of NpyflowError
        One error for each bad file, in the order of the scan.
    """

    def __init__(self, message: str, *, problems: Sequence[NpyflowError] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)


class UnsupportedDtypeError(NpyflowError, TypeError):
    """A dtype that npyflow does not hand to TensorFlow, or a cast that makes no sense."""


class CastError(NpyflowError, ValueError):
    """A value does not fit the dtype that was asked for."""


class ShapeMismatchError(NpyflowError, ValueError):
    """Arrays that belong together disagree in length, shape or dtype."""


class PairingError(NpyflowError, ValueError):
    """Components or labels cannot be joined: a key is missing, extra or doubled."""


class OptionError(NpyflowError, ValueError):
    """An argument is out of its range, or two arguments exclude each other."""


class IndexRangeError(NpyflowError, IndexError):
    """An index lies outside the flow."""


class ClosedError(NpyflowError, RuntimeError):
    """The flow was closed."""


class MapError(NpyflowError, RuntimeError):
    """A function given to `Flow.map` raised; its own error is the ``__cause__``."""


class JobError(NpyflowError, RuntimeError):
    """A job cannot start or go on: its target is in use or holds something else, the disk is full, a shard is wrong."""


class MissingDependencyError(NpyflowError, ImportError):
    """An optional package is needed and not installed."""


class NpyflowWarning(UserWarning):
    """Something that is allowed and rarely meant."""
