"""Where crops lie in files: a pure function of the sizes, the epoch and the index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from npyflow._order.cipher import hashed, mix

if TYPE_CHECKING:
    from npyflow._core.options import Crop

Array = np.ndarray[Any, Any]

# Sets the corners apart from everything else that is drawn with the same seed.
_CORNER = 0x4352


class CropPlan:
    """The crops of many files.

    Parameters
    ----------
    sizes : int64 array (files, axes)
        Sizes of the files along the axes that are cropped.
    crop : Crop
        What to cut out.

    Notes
    -----
    A corner is the first index of a crop along each cropped axis. It is negative where an array is smaller than the
    crop: such an array stands in the middle.
    """

    def __init__(self, sizes: Array, crop: Crop) -> None:
        self._sizes = sizes
        self._crop = crop
        self._room = sizes - np.array(crop.sizes, np.int64)
        steps = np.array(crop.sizes, np.int64) - np.array(crop.overlaps, np.int64)
        self._steps = steps
        # Tiles along each axis of each file.
        self._tiles = 1 + np.maximum(0, -(-self._room // steps)) if crop.grid else np.ones_like(sizes)
        self.counts = self._tiles.prod(axis=1) * crop.per_file
        self._ends = np.cumsum(self.counts)

    def __len__(self) -> int:
        return int(self._ends[-1])

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes that are cropped."""
        return self._crop.axes

    def files(self, indices: Array) -> Array:
        """The file of each crop."""
        return np.searchsorted(self._ends, indices, side="right")

    def corners(self, indices: Array, draws: Array, epoch: int) -> Array:
        """The corner of each crop.

        Parameters
        ----------
        indices : int64 array (batch,)
            Which crops.
        draws : int64 array (batch,)
            What tells the random crops of an epoch apart.
        epoch : int
            Random crops are others in every epoch.

        Returns
        -------
        int64 array (batch, axes)
        """
        files = self.files(indices)
        room = self._room[files]
        if self._crop.random:
            keys = (mix(self._crop.seed, epoch, _CORNER, axis) for axis in range(room.shape[1]))
            # 53 bits of a float are more than an axis has.
            shares = np.column_stack([(hashed(draws, key) >> np.uint64(11)) * 2.0**-53 for key in keys])
            inside = (shares * (room + 1)).astype(np.int64)
        elif self._crop.grid:
            inside = np.minimum(self._tile(indices, files) * self._steps, room)
        else:
            inside = room // 2
        return np.where(room < 0, -(-room // 2), inside)

    def _tile(self, indices: Array, files: Array) -> Array:
        """The position of each crop in the grid of its file; the last axis runs fastest."""
        rest = indices - (self._ends - self.counts)[files]
        tiles, out = self._tiles[files], np.empty((len(files), self._tiles.shape[1]), np.int64)
        for axis in range(tiles.shape[1] - 1, -1, -1):
            rest, out[:, axis] = np.divmod(rest, tiles[:, axis])
        return out
