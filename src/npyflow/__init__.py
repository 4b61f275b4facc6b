"""Feed NumPy ``.npy`` files to TensorFlow ``tf.data`` pipelines."""

import importlib as _importlib
import typing as _typing

from npyflow._core.errors import (
    BadFilesError,
    CastError,
    ClosedError,
    FileChangedError,
    FileError,
    FileFormatError,
    IndexRangeError,
    JobError,
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

if _typing.TYPE_CHECKING:
    from npyflow._flow.stored import open_arrayrecord, open_parquet
    from npyflow._flow.tfrecords import open_tfrecord
    from npyflow._jobs.convert import convert
    from npyflow._jobs.measure import measure
    from npyflow._jobs.pack import pack

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
    "JobError",
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
    "convert",
    "files",
    "load",
    "measure",
    "npz",
    "open_arrayrecord",
    "open_parquet",
    "open_tfrecord",
    "pack",
    "rows",
    "windows",
]

# Loaded when they are first asked for, since few programs need them, and every one would wait for their import.
_LATE = {
    "convert": "_jobs.convert",
    "measure": "_jobs.measure",
    "open_arrayrecord": "_flow.stored",
    "open_parquet": "_flow.stored",
    "open_tfrecord": "_flow.tfrecords",
    "pack": "_jobs.pack",
}


def __getattr__(name: str) -> _typing.Any:
    if name not in _LATE:
        raise AttributeError(f"module 'npyflow' has no attribute {name!r}")
    value = getattr(_importlib.import_module(f"npyflow.{_LATE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
