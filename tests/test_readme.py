"""Every Python block of the README and of docs/examples.md runs, in one folder, from top to bottom."""

import re
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent


def blocks_of(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


def write_what_the_first_blocks_presume(folder: Path) -> None:
    rng = np.random.default_rng(0)
    np.save(folder / "x.npy", rng.random((200, 28, 28), np.float32))
    np.save(folder / "y.npy", rng.integers(0, 10, 200))
    for kind in ("cat", "dog"):
        (folder / "images" / kind).mkdir(parents=True)
        for number in range(10):
            np.save(folder / "images" / kind / f"{number}.npy", rng.random((8, 8), np.float32))


@pytest.mark.tf
def test_readme_blocks_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tensorflow")
    import keras

    blocks = blocks_of("README.md")
    assert len(blocks) >= 4
    write_what_the_first_blocks_presume(tmp_path)
    monkeypatch.chdir(tmp_path)
    model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(10, activation="softmax")])
    model.compile("sgd", "sparse_categorical_crossentropy")
    for number, block in enumerate(blocks):
        exec(compile(block, f"README block {number}", "exec"), {"model": model})


@pytest.mark.tf
def test_the_blocks_on_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tensorflow")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for number, block in enumerate(blocks_of("docs/examples.md")):
        exec(compile(block, f"block {number} of docs/examples.md", "exec"), names)


def test_public_names_are_those_that_the_readme_and_the_errors_page_speak_of() -> None:
    import npyflow

    text = (ROOT / "README.md").read_text() + (ROOT / "docs" / "reference.md").read_text()
    named = set(re.findall(r"(?:npyflow|nf)\.([A-Za-z_]+)", text))
    unknown = {name for name in named if not hasattr(npyflow, name)} - {"json", "CSV"}
    assert not unknown
    missing = {name for name in npyflow.__all__ if not name.startswith("__") and not re.search(rf"\b{name}\b", text)}
    assert not missing
