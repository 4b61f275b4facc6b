"""Every example in a docstring runs, and every public name has a docstring that says what it raises."""

import doctest
import importlib
import pkgutil

import pytest

import npyflow

MODULES = [
    found.name
    for found in pkgutil.walk_packages(npyflow.__path__, "npyflow.")
    if "._adapters." not in found.name and not found.name.endswith("__main__")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str) -> None:
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert failed == 0


def test_the_front_door_has_an_example() -> None:
    assert ">>>" in str(npyflow.rows.__doc__)


@pytest.mark.parametrize("name", ["rows", "files", "load"])
def test_doors_say_what_they_raise(name: str) -> None:
    text = str(getattr(npyflow, name).__doc__)
    assert "Parameters\n" in text
    assert "Raises\n" in text
