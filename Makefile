# Two commands take a fresh clone to green: `make demo` and `make test`. They need Python 3.11 to 3.13, git and make.
PYTHON ?= python3
BIN := .venv/bin
# Two processes, a test file in one of them: fixtures of a module are made once.
PYTEST ?= -n 2 --dist loadfile
# pip's own upgrade notice only makes noise.
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test lint types tests tests-base tests-floor bench clean

demo: .venv/ready
	$(BIN)/npyflow demo

test: lint types tests tests-base tests-floor

lint: .venv/ready
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/ruff check src tests benchmarks

types: .venv/ready
	$(BIN)/mypy

# Each test runs once: here those that need TensorFlow or another extra, or take long.
tests: .venv/ready
	$(BIN)/python -m pytest -m alone tests/test_dask.py tests/test_jobs_killed.py
	$(BIN)/python -m pytest $(PYTEST) -m "(tf or slow or extra) and not alone"

# And here the others, which prove at once that what needs NumPy alone works without TensorFlow.
tests-base: .venv-base/ready
	.venv-base/bin/python -m pytest $(PYTEST) -m "not tf and not slow and not extra"

# The oldest versions that are promised; TensorFlow 2.18 has no build for Python 3.13.
tests-floor: .venv-floor/ready
	if [ -x .venv-floor/bin/pytest ]; then .venv-floor/bin/python -m pytest $(PYTEST) -m "not slow" tests/tf tests/test_sources.py; fi

bench: .venv/ready
	$(BIN)/python -m benchmarks --json benchmarks/results.json --docs docs/performance.md

.venv/ready: requirements/dev.txt pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q -r requirements/dev.txt
	$(BIN)/pip install -q --no-deps --no-build-isolation -e .
	touch $@

.venv-base/ready: requirements/base.txt pyproject.toml
	$(PYTHON) -m venv .venv-base
	.venv-base/bin/pip install -q -r requirements/base.txt
	.venv-base/bin/pip install -q --no-deps --no-build-isolation -e .
	touch $@

.venv-floor/ready: requirements/floor.txt pyproject.toml
	$(PYTHON) -m venv .venv-floor
	if .venv-floor/bin/python -c 'import sys; sys.exit(sys.version_info >= (3, 13))'; then \
		.venv-floor/bin/pip install -q -r requirements/floor.txt && \
		.venv-floor/bin/pip install -q --no-deps --no-build-isolation -e .; \
	else echo "skipped: the oldest TensorFlow has no build for this Python"; fi
	touch $@

clean:
	rm -rf .venv .venv-base .venv-floor .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
