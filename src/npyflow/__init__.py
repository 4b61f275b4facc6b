"""Feed NumPy ``.npy`` files to TensorFlow ``tf.data`` pipelines."""

from npyflow._core.errors import (
    BadFilesError,
    CastError,
    ClosedError,
    FileChangedError,
    FileError,
    FileFormatError,
    IndexRangeError,
    MapError,
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
from npyflow._core.options import Bucket, Crop, Pad, Ragged, Shuffle
from npyflow._core.sampling import Balanced
from npyflow._core.spec import ArraySpec
from npyflow._flow.files import files
from npyflow._flow.flow import Flow
from npyflow._flow.load import load
from npyflow._flow.npz import npz
from npyflow._flow.rows import rows
from npyflow._flow.windows import windows
from npyflow._sources.labels import Table

__version__ = "0.1.0"

__all__ = [
    "ArraySpec",
    "BadFilesError",
    "Balanced",
    "Bucket",
    "CastError",
    "ClosedError",
    "Crop",
    "FileChangedError",
    "FileError",
    "FileFormatError",
    "Flow",
    "IndexRangeError",
    "MapError",
    "MissingDependencyError",
    "MissingFileError",
    "MissingMemberError",
    "NpyflowError",
    "NpyflowWarning",
    "OptionError",
    "Pad",
    "PairingError",
    "Ragged",
    "ShapeMismatchError",
    "Shuffle",
    "Table",
    "UnsupportedDtypeError",
    "__version__",
    "files",
    "load",
    "npz",
    "rows",
    "windows",
]
