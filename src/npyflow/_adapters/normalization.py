"""Statistics as a Keras layer."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

Array = np.ndarray[Any, Any]


def build(mean: Array, std: Array, axis: int | None) -> Any:
    """Return a ``keras.layers.Normalization`` that is built and needs no ``adapt``.

    Parameters
    ----------
    mean, std : float64 array (channels,) or ()
        One number where `axis` is None. Where `std` is 0 the mean is taken off and nothing is divided.
    axis : int or None
        -1 or None.

    Returns
    -------
    keras.layers.Normalization
        It takes batches and single examples, of any rank, in models and in ``map`` of a dataset. Keras divides by 1e-7
        where `std` is less.
    """
    layer = keras.layers.Normalization(
        axis=axis,
        mean=mean,
        variance=np.where(std == 0.0, 1.0, np.square(std)),
        # Not in the half precision of a mixed policy, in which a variance above 65,504 is infinite.
        dtype=keras.config.floatx(),
    )
    # At once, because Keras would keep the tensors of the graph in which it is called first. And without a batch axis,
    # to add none to single examples.
    layer.build(np.shape(mean))
    return layer
