"""`npyflow.open_arrayrecord`: the ArrayRecord files that `npyflow convert` writes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from npyflow._flow.content import Content
from npyflow._flow.flow import Flow, open_flow
from npyflow._sources.component import Component
from npyflow._sources.stored import Stored, load_stored

if TYPE_CHECKING:
    from os import PathLike


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
    return records_flow(folder, "arrayrecord")


def records_flow(folder: str | PathLike[str], to: str) -> Flow:
    """Open a data set of records with every example by its number.

    Parameters
    ----------
    folder : path
        Of the data set.
    to : {"arrayrecord", "tfrecord"}
        What it must be.

    Raises
    ------
    MissingFileError, FileChangedError, BadFilesError, FileFormatError
        As `open_arrayrecord`.
    """
    schema = load_stored(folder, to)
    path = os.path.abspath(os.fspath(folder))
    components = tuple(
        Component(name=name, kind="records", stored=Stored(path=path, schema=schema, leaf=leaf))
        for leaf, name in enumerate(schema.structure.leaves)
    )
    return open_flow(
        Content(structure=schema.structure, components=components, keys=schema.keys, classes=schema.classes)
    )
