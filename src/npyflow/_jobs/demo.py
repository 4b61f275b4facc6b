"""The demonstration: real data in three layouts, trained on and timed beside the recipes that people copy.

Then what a person would do next: measure the layout of many small files, pack it, and compare.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._core.errors import MissingDependencyError
from npyflow._flow.files import files
from npyflow._flow.rows import rows
from npyflow._jobs.measure import measure
from npyflow._jobs.pack import pack

if TYPE_CHECKING:
    from collections.abc import Callable

    from npyflow._flow.flow import Flow
    from npyflow._jobs.progress import Progress

Array = np.ndarray[Any, Any]

BATCH_SIZE = 32
EPOCHS = 20
PASSES = 9
MEASURE_SECONDS = 10.0
SHAPE = (8, 8)
_SHARDS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One layout.

    Parameters
    ----------
    layout : str
        What is on disk.
    call : str
        How npyflow opens it.
    recipe : str
        What it is compared with.
    accuracy : float
        On the validation part, after training.
    rate, recipe_rate : float
        Examples per second, median over passes.
    """

    layout: str
    call: str
    recipe: str
    accuracy: float
    rate: float
    recipe_rate: float

    @property
    def ratio(self) -> float:
        """How many times faster than the recipe."""
        return self.rate / self.recipe_rate


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    name: str
    call: str
    recipe: str
    flow: Flow
    make_recipe: Callable[[Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What the demonstration found.

    Parameters
    ----------
    results : list of Result
        The layouts, and the class folders once more when they are packed.
    verdict : str
        What `npyflow.measure` says of the class folders.
    """

    results: list[Result]
    verdict: str


def run(folder: Path, progress: Progress) -> Shown:
    """Write the data, train and time each layout, and measure and pack the one of small files.

    Parameters
    ----------
    folder : Path
        Where the data goes; existing files of the demonstration are written again.
    progress : Progress
        Is told what happens.

    Raises
    ------
    MissingDependencyError
        Without scikit-learn (for its data) or TensorFlow.
    OSError
        If the folder cannot be written to.
    """
    folder.mkdir(parents=True, exist_ok=True)
    images, labels = _digits()
    progress.start("importing TensorFlow and Keras", 1)
    recipes, training = _adapters()
    progress.step()
    progress.start(f"writing {len(images):,} digits in three layouts", 3)
    layouts = []
    for write in (_write_pair, _write_folders, _write_shards):
        layouts.append(write(folder, images, labels))
        progress.step()
    results = [_time(layout, recipes, training, progress) for layout in layouts]
    folders = layouts[1]
    progress.start(f"{folders.name}: npyflow.measure", 1)
    measured = measure(folders.flow, seconds=MEASURE_SECONDS, batch_size=BATCH_SIZE)
    progress.step()
    results.insert(2, _time(_pack(folder, folders), recipes, training, progress))
    return Shown(results=results, verdict=measured.verdict.headline)


def _pack(folder: Path, folders: _Layout) -> _Layout:
    packed = folder / "packed"
    if packed.exists():
        shutil.rmtree(packed)
    return replace(
        folders,
        name="class folders, packed",
        call='nf.pack(flow, "packed/"), later nf.load("packed/")',
        flow=pack(folders.flow, packed),
    )


def _time(layout: _Layout, recipes: Any, training: Any, progress: Progress) -> Result:
    train, validation = layout.flow.split(0.8, seed=1)
    progress.start(f"{layout.name}: training", EPOCHS)
    accuracy = training.train_classifier(
        train.to_tf(BATCH_SIZE, shuffle=True),
        validation.to_tf(BATCH_SIZE),
        classes=10,
        scale=1 / 16,
        epochs=EPOCHS,
        on_epoch=progress.step,
    )
    progress.start(f"{layout.name}: timing npyflow and the recipe in turn", 2 * (PASSES + 1))
    datasets = {"npyflow": layout.flow.to_tf(BATCH_SIZE, shuffle=True), "recipe": layout.make_recipe(recipes)}
    seconds = training.time_passes(datasets, passes=PASSES, on_pass=progress.step)
    count = len(layout.flow)
    return Result(
        layout=layout.name,
        call=layout.call,
        recipe=layout.recipe,
        accuracy=accuracy,
        rate=count / median(seconds["npyflow"]),
        recipe_rate=count / median(seconds["recipe"]),
    )


def _write_pair(folder: Path, images: Array, labels: Array) -> _Layout:
    x, y = folder / "pair" / "x.npy", folder / "pair" / "y.npy"
    _save(x, images)
    _save(y, labels)
    return _Layout(
        name="a pair of arrays",
        call='nf.rows(("x.npy", "y.npy"))',
        recipe="np.load + from_tensor_slices",
        flow=rows((x, y)),
        make_recipe=lambda recipes: recipes.arrays_in_ram(str(x), str(y), BATCH_SIZE),
    )


def _write_folders(folder: Path, images: Array, labels: Array) -> _Layout:
    root = folder / "folders"
    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        _save(root / str(label) / f"{number}.npy", image)
    return _Layout(
        name="class folders, a file a digit",
        call='nf.files("folders/", labels="directory")',
        recipe="list_files + numpy_function(np.load)",
        flow=files(root, labels="directory"),
        make_recipe=lambda recipes: recipes.file_by_file(str(root / "*" / "*.npy"), SHAPE, BATCH_SIZE),
    )


def _write_shards(folder: Path, images: Array, labels: Array) -> _Layout:
    root = folder / "shards"
    xs = [root / f"x-{number}.npy" for number in range(_SHARDS)]
    ys = [root / f"y-{number}.npy" for number in range(_SHARDS)]
    for path, part in zip(
        [*xs, *ys], [*np.array_split(images, _SHARDS), *np.array_split(labels, _SHARDS)], strict=True
    ):
        _save(path, part)
    return _Layout(
        name=f"{_SHARDS} shards",
        call='nf.rows(("x-*.npy", "y-*.npy"))',
        recipe="from_generator over mapped shards",
        flow=rows((root / "x-*.npy", root / "y-*.npy")),
        make_recipe=lambda recipes: recipes.generator_over_shards(
            [str(path) for path in xs], [str(path) for path in ys], SHAPE, BATCH_SIZE
        ),
    )


def _save(path: Path, array: Array) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    with temporary.open("wb") as file:
        np.save(file, array)
    temporary.replace(path)


def _digits() -> tuple[Array, Array]:
    """The 1,797 handwritten digits of the UCI set, which scikit-learn ships."""
    try:
        from sklearn.datasets import load_digits
    except ModuleNotFoundError:
        raise MissingDependencyError(
            "the demonstration needs scikit-learn for its data: pip install 'npyflow[demo]'"
        ) from None
    data = load_digits()
    return data.images.astype(np.float32), data.target.astype(np.int64)


def _adapters() -> tuple[Any, Any]:
    try:
        from npyflow._adapters import recipes, training
    except ModuleNotFoundError as error:
        if error.name not in ("tensorflow", "keras"):
            raise
        raise MissingDependencyError(
            "the demonstration needs TensorFlow: pip install 'npyflow[tf]' (or 'npyflow[tf-cpu]')"
        ) from None
    return recipes, training
