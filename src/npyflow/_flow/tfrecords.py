"""`npyflow.open_tfrecord`: the TFRecord files that `npyflow convert` writes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.errors import MissingDependencyError, OptionError, ShapeMismatchError
from npyflow._core.options import flag, integer
from npyflow._core.text import plural, show_path
from npyflow._flow.delivery import unconverted
from npyflow._flow.padding import Lengths, plan_collators
from npyflow._format.snippet import tfrecord_snippet
from npyflow._read.collate import Padded
from npyflow._sources.stored import load_stored

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike

    from npyflow._format.schema import Schema

Array = np.ndarray[Any, Any]

# Examples that wait to be mixed, if nothing else is said.
_BUFFER = 10_000


class TFRecords:
    """What `open_tfrecord` returns: examples that TensorFlow reads one after another.

    A TFRecord file has no index, so there is no ``records[3]``: `to_tf` is the way out. For examples by number convert
    to ArrayRecord or Parquet, or pack.
    """

    def __init__(self, folder: str, schema: Schema) -> None:
        self.folder = folder
        self._schema = schema

    def __len__(self) -> int:
        return self._schema.examples

    @property
    def schema(self) -> Schema:
        """What the file beside the data says."""
        return self._schema

    @property
    def spec(self) -> Any:
        """Shape and dtype of each component of an example, nested as the examples are; None where sizes differ."""
        return self._schema.specs

    @property
    def keys(self) -> Sequence[str] | Array:
        """The key of each example in the order of the files; without keys its number, int64."""
        return np.arange(len(self)) if self._schema.keys is None else self._schema.keys

    @property
    def classes(self) -> tuple[str, ...] | None:
        """Class names by number, or None."""
        return self._schema.classes

    @property
    def files(self) -> list[str]:
        """The paths of the TFRecord files, in order."""
        return [os.path.join(self.folder, name) for shard in self._schema.shards for name in shard.files]

    def __repr__(self) -> str:
        components = self._schema.structure.pack([str(column.spec) for column in self._schema.columns])
        return (
            f"<npyflow.TFRecords of {plural(len(self), 'example')} in {plural(len(self.files), 'file')} of "
            f"{show_path(self.folder)}: {components}>"
        )

    def snippet(self) -> str:
        """Return a TensorFlow program that reads the files without npyflow."""
        return tfrecord_snippet(self._schema, self.folder)

    @unconverted
    def to_tf(
        self,
        batch_size: int | None = None,
        *,
        shuffle: bool | int = False,
        seed: int = 0,
        drop_remainder: bool = False,
        pad: Any = None,
        ragged: bool = False,
        epochs: int | None = None,
    ) -> Any:
        """Return a ``tf.data.Dataset`` of native ops, with exact element spec and cardinality.

        Parameters
        ----------
        batch_size : int, optional
            None for single examples.
        shuffle : bool or int
            True mixes 10,000 examples at a time, an integer as many as it says; they wait in memory. The order of the
            files is shuffled too. Less random than the permutation of a `Flow`. Without it examples come in the order
            of the source.
        seed : int
            Another seed is another order. It is TensorFlow's own, another one each epoch.
        drop_remainder : bool
            Leave out a last batch that is not full; the batch axis is static then.
        pad : scalar, Pad(value), or a tuple or dict of them, optional
            Fill examples of different lengths up to the longest of the batch.
        ragged : bool
            Deliver what varies as ``tf.RaggedTensor``.
        epochs : int, optional
            One after another; None is one.

        Returns
        -------
        tf.data.Dataset

        Raises
        ------
        OptionError
            If an option is out of range.
        ShapeMismatchError
            If examples differ in shape and nothing says what to do about it.
        MissingDependencyError
            Without TensorFlow.
        """
        count = len(self)
        size = None if batch_size is None else integer("batch_size", batch_size, 1)
        drop = flag("drop_remainder", drop_remainder) and size is not None
        steps = count if size is None else count // size if drop else -(-count // size)
        pads = self._pads(pad, flag("ragged", ragged), size is None)
        adapter = _import_adapter()
        return adapter.build(
            adapter.Records(
                paths=self.files,
                columns=self._schema.columns,
                structure=self._schema.structure,
                encoding=str(self._schema.options.get("encoding", "raw")),
                compression="GZIP" if self._schema.options.get("compression") == "gzip" else "",
                batch_size=size,
                drop_remainder=drop,
                buffer=_buffer(shuffle, count),
                seed=integer("seed", seed),
                pads=pads,
                ragged=ragged,
                epochs=None if epochs is None else integer("epochs", epochs, 1),
                steps=steps,
            )
        )

    def _pads(self, pad: Any, ragged: bool, single: bool) -> list[Array | None]:
        """What each component is filled up with."""
        specs = [column.spec for column in self._schema.columns]
        names = self._schema.structure.leaves
        if not single and not ragged and pad is None:
            for name, spec in zip(names, specs, strict=True):
                if spec.varying:
                    raise ShapeMismatchError(
                        f"{name or 'data'}: examples differ in shape, {spec}, and cannot be batched as they are; pass "
                        f"pad=0.0 to fill them up, ragged=True for ragged tensors, or leave out the batch size for "
                        f"single examples"
                    )
        lengths = Lengths(shapes=lambda _: None, edges=lambda _: None, where=str)
        how = {"pad": pad, "ragged": ragged, "single": single, "lengths": lengths}
        found: list[Array | None] = []
        for name, one in zip(names, plan_collators(specs, self._schema.structure, **how), strict=True):
            if not isinstance(one, Padded) or pad is None:
                found.append(None)
                continue
            if single:
                raise OptionError(f"pad={pad!r} without batch_size: single examples keep their shape")
            if one.to or one.multiple > 1 or one.truncate or one.mask or one.lengths:
                raise OptionError(
                    f"pad of {name or 'data'}: TFRecord is padded by TensorFlow, to the longest of the batch: expected "
                    f"a value or Pad(value); mask=, lengths=, to= and multiple= are for a Flow, such as that of "
                    f"npyflow.open_arrayrecord"
                )
            found.append(one.value)
        return found


def _buffer(shuffle: Any, count: int) -> int:
    """How many examples are mixed; 0 for none."""
    if isinstance(shuffle, bool | np.bool_):
        return min(_BUFFER, max(1, count)) if shuffle else 0
    return integer("shuffle", shuffle, 1)


def open_tfrecord(folder: str | PathLike[str]) -> TFRecords:
    """Open a data set that was converted to TFRecord.

    Parameters
    ----------
    folder : path
        Where ``npyflow convert --to tfrecord`` wrote it.

    Returns
    -------
    TFRecords
        Structure, keys and classes as they were; `TFRecords.to_tf` reads it.

    Raises
    ------
    MissingFileError, FileChangedError, BadFilesError
        If files are gone, or have another size than when they were written.
    FileFormatError
        If the schema is damaged, or of another format.
    """
    return TFRecords(os.path.abspath(os.fspath(folder)), load_stored(folder, "tfrecord"))


def _import_adapter() -> Any:
    try:
        from npyflow._adapters import tfrecord
    except ModuleNotFoundError as error:
        if error.name != "tensorflow":
            raise
        raise MissingDependencyError(
            "to_tf needs TensorFlow, which is not installed: pip install 'npyflow[tf]' (or 'npyflow[tf-cpu]')"
        ) from None
    return tfrecord
