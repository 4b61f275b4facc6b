"""`npyflow.files`: files that are the examples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from npyflow._core.errors import NpyflowError, OptionError
from npyflow._core.options import Crop
from npyflow._core.structure import Structure, spread, structure_of
from npyflow._core.text import examples, plural, show_path
from npyflow._flow.audit import (
    bad_keys,
    kept_examples,
    kept_tables,
    lonely_keys,
    report,
    unlabelled_keys,
    warn_of_slips,
)
from npyflow._flow.content import Content
from npyflow._flow.expand import deliveries, field_trees, graft, member_trees
from npyflow._flow.flow import Flow, open_flow
from npyflow._flow.npz import Member
from npyflow._sources.component import Component
from npyflow._sources.labels import Labels, find_labels
from npyflow._sources.lengths import common_lengths
from npyflow._sources.listing import Listing, list_files
from npyflow._sources.pairing import join
from npyflow._sources.scan import scan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from npyflow._sources.table import FileTable

Array = np.ndarray[Any, Any]

_LABEL, _WEIGHT = "label", "sample_weight"


def files(
    data: Any,
    *,
    labels: Any = None,
    classes: Sequence[str] | None = None,
    pattern: str | None = None,
    members: Any = None,
    fields: Any = None,
    dtype: Any = None,
    transpose: Any = None,
    crop: Any = None,
    same_length: Any = None,
    trim: int = 0,
    sample_weight: Any = None,
    on_bad: Literal["raise", "skip"] = "raise",
) -> Flow:
    """Open files that are examples: one ``.npy`` file each, or one ``.npz`` file with several arrays.

    Parameters
    ----------
    data : folder, pattern, list of paths, or a nested tuple or dict of them
        Several components are joined by key: the path relative to the component's folder, without the suffix, or
        what ``{key}`` stands for in a pattern such as ``"mel/{key}-mel.npy"``. Order is natural (``2`` before ``10``),
        except that a list keeps its own.
    labels : optional
        ``"directory"`` (the first folder of the key), a function of the key, a mapping, an `npyflow.Table`, or an
        array, list, ``.npy`` file or member of an `npz` in the order of the keys. Examples become ``(inputs, label)``.
    classes : sequence of str, optional
        Class names by number, such as another flow's ``classes``. Without it the names found, sorted.
    pattern : str, optional
        Which files to take from a folder: ``"**/*.npy"``, or with `members` ``"**/*.npz"``; case counts. Hidden files
        and litter are never taken.
    members : str, list of str, or a tuple or dict of them, optional
        Which arrays of ``.npz`` files, nested as the examples shall be: ``("image", "action")``. A list is one array
        under alternative names; the first that a file has is taken. Without it a file must hold one array.
    fields : str, or a tuple or dict of them, optional
        As in `rows`.
    dtype : dtype, or a tuple or dict of them, optional
        Cast while reading, labels excepted. A value that does not fit is an error.
    transpose : "channels_last", "channels_first", tuple of int, or a dict of them, optional
        As in `rows`.
    crop : Crop, or a tuple or dict of them, optional
        Read a region of each file instead of all of it, the same one of all components; of those that a dict leaves
        out, everything.
    same_length : tuple of str, or dict of str to int, optional
        Names of components of which each file must be as long as that of the others: along the axis that varies, or
        the one that the dict gives.
    trim : int
        How much longer than the others one may be; its end is cut.
    sample_weight : optional
        As `labels`, numbers; or ``"balanced"``: the fewer examples its class has, the more a label weighs. Examples
        become ``(inputs, label, weight)``.
    on_bad : {"raise", "skip"}
        ``"skip"`` drops examples with a bad or missing file or no label, and lists them in ``flow.report``.

    Returns
    -------
    Flow

    Raises
    ------
    PairingError
        If keys do not match, or a label is missing.
    ShapeMismatchError
        If the files differ in dtype or in the number of axes, or in a length that must be the same. Files may differ
        along their axes: those are None in ``flow.spec``, and `Flow.to_tf` wants to know how to batch them.
    FileFormatError, BadFilesError
        If a file is no intact ``.npy`` file; all bad files are named.
    MissingFileError
        If there is no file.
    """
    _check_options(on_bad, labels, classes, sample_weight)
    structure = structure_of(data, "data")
    arrays = member_trees(members, structure)
    listings = _listings(structure, pattern or ("**/*.npy" if members is None else "**/*.npz"))
    joined = join(listings, structure.names)
    skipped = lonely_keys(joined, structure.names, on_bad)
    scans = [scan(paths, tree.leaves) for paths, tree in zip(joined.paths, arrays, strict=True)]
    skipped |= bad_keys(joined, scans, on_bad)
    found = None if labels is None else find_labels(_values(labels), joined.keys, classes)
    weights = _find_weights(sample_weight, joined.keys)
    skipped |= unlabelled_keys(found, joined.keys, on_bad) | unlabelled_keys(weights, joined.keys, on_bad, "weight")
    keep = kept_examples(joined.keys, skipped)
    keys = tuple(joined.keys[at] for at in keep.tolist())
    tables = [table for one in scans for table in kept_tables(one, keep)]
    warn_of_slips(tables, stacklevel=2)
    how = _Wanted(fields, dtype, transpose, crop, same_length, trim)
    inputs, tree, notes = how.components(graft(structure, arrays), tables, keys)
    outputs = _outputs(found, weights, sample_weight, keep)
    said = report(listings, scans, [names.leaves for names in arrays], skipped, found, notes)
    tree = _nested(tree, inputs, outputs)
    classes = None if found is None else found.classes
    components = (*inputs, *outputs)
    return open_flow(Content(structure=Structure(tree), components=components, keys=keys, classes=classes, report=said))


def _listings(structure: Structure[Any], pattern: str) -> list[Listing]:
    return [list_files(leaf, pattern, name or "data") for name, leaf in structure.named()]


def _values(given: Any) -> Any:
    """A member of an archive as its array; everything else as it is."""
    return given.read() if isinstance(given, Member) else given


class _Wanted(NamedTuple):
    """What of each file is delivered, and how; see `files`."""

    fields: Any
    dtype: Any
    transpose: Any
    crop: Any
    same_length: Any
    trim: Any

    def components(
        self, structure: Structure[Any], tables: Sequence[FileTable], keys: Sequence[str]
    ) -> tuple[list[Component], Any, list[str]]:
        """The components that `tables` are, one a leaf of `structure`; the nesting of all their arrays; and notes."""
        names = structure.names
        extents, notes = common_lengths(dict(zip(names, tables, strict=True)), self.same_length, self.trim, keys)
        stored = [table.dtypes(name or "data") for table, name in zip(tables, names, strict=True)]
        trees = field_trees(self.fields, structure, stored)
        whole = graft(structure, trees)
        wanted = deliveries(trees, whole, self.dtype)
        transposes = spread(self.transpose, structure, "transpose", nested=True)
        if isinstance(self.crop, tuple | list) and all(one is None or isinstance(one, int) for one in self.crop):
            raise OptionError(f"crop={self.crop!r}: expected npyflow.Crop({tuple(self.crop)!r})")
        crops = spread(self.crop, structure, "crop")
        for one in crops:
            if one is not None and not isinstance(one, Crop):
                raise OptionError(f"crop={one!r}: expected npyflow.Crop(...)")
        if self.crop is not None and extents:
            raise OptionError("crop= and same_length= exclude each other: cropped components must agree in size anyway")
        components = [
            Component(
                name=name,
                kind="files",
                table=tables[at],
                delivery=wanted[at],
                transpose=transposes[at],
                crop=crops[at],
                extents=extents.get(name),
            )
            for at, name in enumerate(names)
        ]
        return components, whole.pack(whole.names), notes


def _find_weights(given: Any, keys: Sequence[str]) -> Labels | None:
    """Return the weight of each key, if the user gives them."""
    if given is None or (isinstance(given, str) and given == "balanced"):
        return None
    try:
        found = find_labels(_values(given), keys, None)
    except NpyflowError as error:
        raise type(error)(f"sample_weight: {error}") from None
    values = found.values
    if found.classes is not None or values.shape != (len(keys),) or values.dtype.kind not in "biuf":
        what = "text" if found.classes is not None else f"dtype {values.dtype}, shape {values.shape}"
        raise OptionError(f"sample_weight: {what} for {plural(len(keys), 'file')}; expected one number each")
    wrong = [at for at in np.flatnonzero(~(np.isfinite(values) & (values >= 0))).tolist() if at not in found.missing]
    if wrong:
        shown = examples(f"{show_path(keys[at])} has {values[at]}" for at in wrong)
        raise OptionError(f"sample_weight: {shown}; expected finite numbers, none below 0")
    return found


def _outputs(found: Labels | None, weights: Labels | None, sample_weight: Any, keep: Array) -> list[Component]:
    """The components beside the inputs: label and weight."""
    outputs = []
    if found is not None:
        outputs.append(Component(name=_LABEL, kind="labels", arrays=(found.values[keep],)))
    if sample_weight is not None:
        values = _balanced(found, keep) if weights is None else weights.values[keep]
        outputs.append(Component(name=_WEIGHT, kind="labels", arrays=(values.astype(np.float32),)))
    return outputs


def _nested(tree: Any, inputs: Sequence[Component], outputs: Sequence[Component]) -> Any:
    """``(inputs, label, weight)``; a pair of files is inputs and label already."""
    names = [output.name for output in outputs]
    if taken := [component.name for component in inputs if component.name in names]:
        raise OptionError(f"the data has a component {taken[0]!r}, and labels= or sample_weight= makes one; rename it")
    if names == [_WEIGHT]:
        if not isinstance(tree, tuple) or len(tree) != 2:
            raise OptionError(f"{_WEIGHT}= without labels=: say where the labels are, or pass data as (inputs, label)")
        return (*tree, _WEIGHT)
    return (tree, *names) if names else tree


def _balanced(found: Labels | None, keep: Array) -> Array:
    """Weights that give every class the same sum, and all examples the mean 1."""
    if found is None:
        raise OptionError(f"{_WEIGHT}='balanced' needs labels=")
    labels = found.values[keep]
    if labels.ndim != 1 or labels.dtype.kind not in "biu":
        raise OptionError(f"sample_weight='balanced' needs labels that are classes; they are {labels.dtype.name}")
    _, numbers, counts = np.unique(labels, return_inverse=True, return_counts=True)
    return (len(labels) / (len(counts) * counts))[numbers]


def _check_options(on_bad: str, labels: Any, classes: Sequence[str] | None, sample_weight: Any) -> None:
    if on_bad not in ("raise", "skip"):
        raise OptionError(f"on_bad={on_bad!r}: expected 'raise' or 'skip'")
    if classes is not None and labels is None:
        raise OptionError("classes= without labels=: say where the labels are")
    if isinstance(sample_weight, str) and sample_weight != "balanced" and not sample_weight.endswith(".npy"):
        raise OptionError(
            f"{_WEIGHT}={sample_weight!r}: expected 'balanced', a .npy file, an array, a mapping or a function"
        )
