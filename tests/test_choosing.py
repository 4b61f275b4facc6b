"""What `docs/choosing.md` says of other tools is what they do."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npyflow as nf
from helpers import write

pytestmark = [
    pytest.mark.extra,
    # Of Grain and Hugging Face datasets, about their own insides.
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning"),
]

PAGE = (Path(__file__).parent.parent / "docs" / "choosing.md").read_text(encoding="utf-8")


def test_other_tools_read_what_is_converted(tmp_path: Path, monkeypatch: Any) -> None:
    for package in ("pyarrow", "pandas", "datasets", "grain", "array_record"):
        pytest.importorskip(package)
    (program,) = [block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "pandas" in block]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    arrays = [np.full((4, 5), number, "f4") for number in range(20)]
    for number, array in enumerate(arrays):
        write(tmp_path / f"src/{number}.npy", array)
    flow = nf.files("src")
    nf.convert(flow, "parquet", to="parquet")
    nf.convert(flow, "lists", to="parquet", encoding="list")
    nf.convert(flow, "arrayrecord", to="arrayrecord")
    found: dict[str, Any] = {}
    exec(program, found)
    np.testing.assert_array_equal(found["images"], arrays)
    np.testing.assert_array_equal(found["frame"]["data"][3], arrays[3].reshape(-1))
    np.testing.assert_array_equal(found["rows"][2]["data"], arrays[2])
    assert len(found["source"]) == len(arrays)
    assert arrays[7].tobytes() in found["source"][7]
