"""The rules of the house, read from the source."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import npyflow as nf

SOURCE = Path(nf.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))
NAMES = [path.relative_to(SOURCE).as_posix() for path in MODULES]

# A folder may import itself and those named here.
BELOW = {
    "_core": set(),
    "_format": {"_core"},
    "_sources": {"_core", "_format"},
    "_order": {"_core"},
    "_read": {"_core", "_format", "_sources", "_order"},
    "_adapters": {"_core", "_format", "_sources", "_order", "_read"},
    "_flow": {"_core", "_format", "_sources", "_order", "_read", "_adapters"},
}
BELOW["_write"] = {*BELOW}
BELOW["_measure"] = {*BELOW}
BELOW["_jobs"] = {*BELOW}
BELOW["_cli"] = {*BELOW}

# Beside NumPy and the standard library. All but the adapters and the command line import theirs inside functions.
ALLOWED = {
    "_core": {"ml_dtypes"},
    "_format": {"google_crc32c"},
    "_sources": {"pyarrow", "array_record"},
    "_write": {"pyarrow", "array_record", "dask", "distributed"},
    "_measure": {"matplotlib"},
    "_adapters": {"tensorflow", "keras"},
    # For the progress bar of a pass.
    "_flow": {"rich"},
    "_jobs": {"tensorflow", "keras", "sklearn", "rich"},
    "_cli": {"click", "rich"},
}
THIRD_PARTY = {
    "tensorflow",
    "keras",
    "sklearn",
    "rich",
    "click",
    "pandas",
    "psutil",
    "torch",
    "h5py",
    "scipy",
    "ml_dtypes",
    "google_crc32c",
    "pyarrow",
    "array_record",
    "dask",
    "distributed",
    "matplotlib",
    "polars",
    "grain",
}


def parse(name: str) -> ast.Module:
    return ast.parse((SOURCE / name).read_text(encoding="utf-8"), name)


def imports(tree: ast.AST) -> Iterator[tuple[str, ast.stmt]]:
    """Every imported module, those inside functions and for type checkers too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            yield node.module, node
            for alias in node.names:
                yield f"{node.module}.{alias.name}", node


def layer(name: str) -> str:
    return name.split("/")[0]


def test_every_folder_has_its_layer():
    assert {layer(name) for name in NAMES if "/" in name} <= set(BELOW)


@pytest.mark.parametrize("name", [name for name in NAMES if "/" in name])
def test_layers_are_one_way(name):
    for module, _ in imports(parse(name)):
        parts = module.split(".")
        if parts[0] != "npyflow" or len(parts) < 2:
            continue
        if parts[1] in BELOW:
            assert parts[1] in BELOW[layer(name)] | {layer(name)}, f"{name} imports {module}"
        else:
            # The facade's names are for users, jobs and the command line.
            assert layer(name) in ("_write", "_measure", "_jobs", "_cli"), f"{name} imports {module}"


def test_the_facade_loads_jobs_only_when_they_are_asked_for():
    code = (
        "import sys, npyflow; late = [m for m in sys.modules if m.startswith(('npyflow._jobs', 'npyflow._write'))];"
        "assert not late, late; npyflow.pack; assert 'npyflow._jobs.pack' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", NAMES)
def test_who_may_import_what(name):
    for module, _ in imports(parse(name)):
        top = module.split(".")[0]
        if top in THIRD_PARTY:
            assert top in ALLOWED.get(layer(name), set()), f"{name} imports {top}"


@pytest.mark.parametrize("name", [name for name in NAMES if layer(name) not in ("_adapters", "__init__.py")])
def test_extras_are_imported_late(name):
    tree = parse(name)
    inside = {
        node
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    for module, node in imports(tree):
        if node not in inside:
            assert module.split(".")[0] not in THIRD_PARTY - {"click", "rich"}, f"{name} imports {module} at once"
            assert not module.startswith("npyflow._adapters."), f"{name} imports {module} at once"


def test_there_are_no_import_cycles():
    graph = {}
    for name in NAMES:
        own = "npyflow." + name.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        graph[own.removesuffix(".__init__")] = {module for module, _ in imports(parse(name))}
    graph = {name: {module for module in found if module in graph and module != name} for name, found in graph.items()}
    graph["npyflow"] = set()
    done: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, " -> ".join([*above[above.index(name) :], name])
        if name not in done:
            for below in graph[name]:
                visit(below, (*above, name))
            done.add(name)

    for name in graph:
        visit(name, ())


@pytest.mark.parametrize("name", NAMES)
def test_no_assert_on_input(name):
    assert not [node.lineno for node in ast.walk(parse(name)) if isinstance(node, ast.Assert)]


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_unpickled_or_evaluated(name):
    for node in ast.walk(parse(name)):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            assert called not in ("eval", "exec", "pickle.load", "pickle.loads"), f"{name}: {called}"
            # It parses and does not evaluate, but takes a hundred times the size of a text: bounded in one place.
            assert called != "ast.literal_eval" or name == "_format/literal.py", f"{name}: {called}"
            for keyword in node.keywords:
                if keyword.arg == "allow_pickle":
                    assert ast.unparse(keyword.value) == "False", f"{name}:{node.lineno}"


@pytest.mark.parametrize("name", NAMES)
def test_modules_are_short(name):
    assert len((SOURCE / name).read_text(encoding="utf-8").splitlines()) < 400


@pytest.mark.parametrize("name", NAMES)
def test_functions_are_short(name):
    for node in ast.walk(parse(name)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            lines = node.end_lineno - node.lineno + 1
            if ast.get_docstring(node) is not None:
                lines -= first.end_lineno - first.lineno + 1
            assert lines < 40, f"{name}: {node.name} has {lines} lines"


@pytest.mark.parametrize("name", NAMES)
def test_every_module_says_what_it_is(name):
    assert ast.get_docstring(parse(name))


def test_public_names():
    assert nf.__all__ == sorted(nf.__all__)
    assert len(nf.__all__) == len(set(nf.__all__))
    for name in nf.__all__:
        assert hasattr(nf, name)
    public = {name for name in vars(nf) if not name.startswith("_")}
    assert public | {"__version__"} == set(nf.__all__)
    # Few to learn; errors are met one by one.
    assert len([name for name in nf.__all__ if not name.endswith(("Error", "Warning"))]) < 24


def test_the_tree_of_errors():
    builtins = {
        "MissingFileError": FileNotFoundError,
        "MissingMemberError": KeyError,
        "FileFormatError": ValueError,
        "FileChangedError": RuntimeError,
        "BadFilesError": ValueError,
        "UnsupportedDtypeError": TypeError,
        "CastError": ValueError,
        "ShapeMismatchError": ValueError,
        "PairingError": ValueError,
        "OptionError": ValueError,
        "IndexRangeError": IndexError,
        "MapError": RuntimeError,
        "JobError": RuntimeError,
        "ClosedError": RuntimeError,
        "MissingDependencyError": ImportError,
    }
    errors = {name for name in nf.__all__ if name.endswith("Error")} - {"NpyflowError", "FileError"}
    assert errors == set(builtins)
    for name, builtin in builtins.items():
        error = getattr(nf, name)(
            "text", **({} if name == "BadFilesError" else {"path": "p", "member": "m", "index": 3})
        )
        assert isinstance(error, nf.NpyflowError)
        assert isinstance(error, builtin)
        assert str(error) == "text"


@pytest.mark.parametrize("name", [name for name in nf.__all__ if name.endswith("Error")])
def test_errors_travel_between_processes(name):
    import pickle

    kind = getattr(nf, name)
    error = (
        kind("text", problems=[nf.FileError("x", path="q")])
        if name == "BadFilesError"
        else kind("text", path="p", member="m", index=3, kind="k")
    )
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert str(again) == "text"
    assert vars(again) == vars(error) or name == "BadFilesError"
    if name == "BadFilesError":
        assert again.problems[0].path == "q"
