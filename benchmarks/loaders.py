"""PyTorch, Grain and DALI, measured where they are installed; and the floor, bare system calls and memcpy."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.measure import Again

TORCH = "torch"
GRAIN = "grain"
DALI = "nvidia.dali"


def installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of the package above it
        return False


def torch_rows(x: Any, y: Any, batch_size: int) -> Any:
    """PyTorch's `DataLoader` over arrays in RAM, a row at a time, no workers."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    dataset = TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
    return DataLoader(dataset, batch_size=batch_size, shuffle=True)


def torch_batches(x: Any, y: Any, batch_size: int) -> Any:
    """PyTorch's `DataLoader` over arrays in RAM with batched fetch (``__getitems__``), no workers.

    NumPy gathers: that is faster than indexing a tensor with a list.
    """
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Batched(Dataset):  # type: ignore[type-arg]
        def __len__(self) -> int:
            return len(x)

        def __getitems__(self, indices: list[int]) -> Any:
            return torch.from_numpy(x[indices]), torch.from_numpy(y[indices])

    return DataLoader(Batched(), batch_size=batch_size, shuffle=True, collate_fn=lambda fetched: fetched)


def grain_rows(x: Any, y: Any, batch_size: int) -> Any:
    """Grain's `MapDataset` over a map, shuffled and batched in this process."""
    import grain

    class Rows:
        def __len__(self) -> int:
            return len(x)

        def __getitem__(self, index: int) -> Any:
            return x[index], y[index]

    dataset = grain.MapDataset.source(Rows()).shuffle(seed=0).batch(batch_size)
    return Again(generate=lambda: iter(dataset.to_iter_dataset()))


def dali_files(paths: list[str], batch_size: int) -> Any:
    """DALI's reader of ``.npy`` files on the CPU. It shuffles within a buffer."""
    from nvidia.dali import fn, pipeline_def
    from nvidia.dali.backend import TensorListCPU  # noqa: F401 (fails where DALI does not load)

    @pipeline_def(batch_size=batch_size, num_threads=os.cpu_count() or 1, device_id=None)
    def pipeline() -> Any:
        return fn.readers.numpy(device="cpu", files=paths, random_shuffle=True, initial_fill=1024, pad_last_batch=True)

    built = pipeline()
    built.build()

    def epoch() -> Iterator[Any]:
        left = len(paths)
        while left > 0:
            (arrays,) = built.run()
            yield np.asarray(arrays.as_tensor())[:left]
            left -= batch_size

    return Again(generate=epoch)


def bare_files(paths: list[str], shape: tuple[int, ...], batch_size: int, header_bytes: int) -> Any:
    """Open, ``preadv`` and close in a loop, into one warm buffer: no checks, no dataset. What the system calls cost."""
    names = [os.fsencode(path) for path in paths]
    out = np.empty((batch_size, *shape), np.float32)
    header = bytearray(header_bytes)
    slots = [memoryview(row.reshape(-1).view(np.uint8)) for row in out]

    def epoch() -> Iterator[Any]:
        order = np.random.permutation(len(names)).tolist()
        for start in range(0, len(order), batch_size):
            part = order[start : start + batch_size]
            for index, slot in zip(part, slots, strict=False):
                file = os.open(names[index], os.O_RDONLY | os.O_CLOEXEC)
                os.preadv(file, (header, slot), 0)
                os.close(file)
            yield out[: len(part)]

    return Again(generate=epoch)


def memcpy(arrays: Any, batch_size: int) -> Any:
    """Copy arrays in RAM into one warm buffer, a batch at a time."""
    out = np.empty((batch_size, *arrays.shape[1:]), arrays.dtype)

    def epoch() -> Iterator[Any]:
        for start in range(0, len(arrays), batch_size):
            part = arrays[start : start + batch_size]
            np.copyto(out[: len(part)], part)
            yield out[: len(part)]

    return Again(generate=epoch)
