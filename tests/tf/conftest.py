"""Keeps TensorFlow quiet and off accelerators, and lets its own warnings pass."""

import os
from pathlib import Path

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

# Keras passes shuffle=True to itself in fit() and then warns that datasets ignore it.
KERAS_OWN = "ignore:`shuffle=True` was passed, but will be ignored:UserWarning"


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings(KERAS_OWN))


@pytest.fixture
def alive():
    """Return a function that says how many feeds of this test are alive."""
    # Here, because it is also collected where there is no TensorFlow.
    from tf_support import collect_garbage

    from npyflow._adapters.tfdata import _feeds

    collect_garbage()
    before = set(_feeds)

    def count():
        collect_garbage()
        return len(set(_feeds) - before)

    return count
