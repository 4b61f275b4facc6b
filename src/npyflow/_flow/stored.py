"""`npyflow.open_parquet` and `npyflow.open_arrayrecord`: converted data, with every example by its number."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from npyflow._flow.content import Content
from npyflow._flow.flow import Flow, open_flow
from npyflow._sources.component import Component
from npyflow._sources.stored import Stored, load_stored

if TYPE_CHECKING:
    from os import PathLike


def open_parquet(folder: str | PathLike[str]) -> Flow:
    """Open a data set that was converted to Parquet: examples, keys and class names come back as they were.

    Parameters
    ----------
    folder : path
        Where ``npyflow convert --to parquet`` wrote it.

    Returns
    -------
    Flow

    Raises
    ------
    MissingFileError, FileChangedError, BadFilesError
        If files are gone, or have another size than when they were written.
    FileFormatError
        If the schema is damaged, or of another format.
    MissingDependencyError
        Without pyarrow.

    Notes
    -----
    A row group, 512 KiB of examples if nothing else was asked for, is the least that can be read of a Parquet file.
    An example out of the middle costs its whole group; groups that were read last are kept, 64 MiB of them. Reading in
    order is fast, and so is ``to_tf(batch_size, shuffle=Shuffle(block=B))`` where ``B`` is the number of examples in a
    row group: it reads whole groups in random order and mixes the examples of 16 of them. ``shuffle=True`` is a true
    permutation here too: the larger the examples, the less it costs.
    """
    return stored_flow(folder, "parquet")


def open_arrayrecord(folder: str | PathLike[str]) -> Flow:
    """Open a data set that was converted to ArrayRecord: examples, keys and class names come back as they were.

    Parameters
    ----------
    folder : path
        Where ``npyflow convert --to arrayrecord`` wrote it.

    Returns
    -------
    Flow
        Every example is read by its number, so ``shuffle=True`` is a true permutation. The components of an example lie
        in one record and are read together.

    Raises
    ------
    MissingFileError, FileChangedError, BadFilesError
        If files are gone, or have another size than when they were written.
    FileFormatError
        If the schema is damaged, or of another format.
    MissingDependencyError
        Without the package array-record.
    """
    from npyflow._sources.arrayrecords import array_record_module

    array_record_module()
    return stored_flow(folder, "arrayrecord")


def stored_flow(folder: str | PathLike[str], to: str) -> Flow:
    """Open converted data of the format `to`: Parquet, ArrayRecord, or TFRecord, for converting it back.

    Raises
    ------
    MissingFileError, FileChangedError, BadFilesError, FileFormatError
        As `open_parquet`.
    """
    schema = load_stored(folder, to)
    path = os.path.abspath(os.fspath(folder))
    components = tuple(
        Component(
            name=name,
            kind="parquet" if to == "parquet" else "records",
            stored=Stored(path=path, schema=schema, leaf=leaf),
        )
        for leaf, name in enumerate(schema.structure.leaves)
    )
    return open_flow(
        Content(structure=schema.structure, components=components, keys=schema.keys, classes=schema.classes)
    )
