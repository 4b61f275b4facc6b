"""Feed NumPy ``.npy`` files to TensorFlow ``tf.data`` pipelines."""

from npyflow._core.errors import (
    BadFilesError,
    CastError,
    ClosedError,
    FileChangedError,
    FileError,
    FileFormatError,
    IndexRangeError,
    MissingDependencyError,
    MissingFileError,
    MissingMemberError,
    NpyflowError,
    NpyflowWarning,
    OptionError,
    PairingError,
    ShapeMismatchError,
    UnsupportedDtypeError,
)
from npyflow._core.spec import ArraySpec, Shuffle
from npyflow._flow.flow import Flow
from npyflow._flow.npz import npz
from npyflow._flow.opening import files, load, rows
from npyflow._sources.labels import Table

__version__ = "0.1.0"

__all__ = [
    "ArraySpec",
    "BadFilesError",
    "CastError",
    "ClosedError",
    "FileChangedError",
    "FileError",
    "FileFormatError",
    "Flow",
    "IndexRangeError",
    "MissingDependencyError",
    "MissingFileError",
    "MissingMemberError",
    "NpyflowError",
    "NpyflowWarning",
    "OptionError",
    "PairingError",
    "ShapeMismatchError",
    "Shuffle",
    "Table",
    "UnsupportedDtypeError",
    "__version__",
    "files",
    "load",
    "npz",
    "rows",
]
