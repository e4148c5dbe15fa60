# Everything runs in .venv, made on first use from pinned versions.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
BENCH_READY := $(VENV)/.bench-ready

.PHONY: help setup demo test check lint docs bench lock clean

help:
	@echo "make demo   measure rankings of scikit-learn's digits, with significance"
	@echo "make test   run the tests"
	@echo "make check  ruff, mypy, import contracts, then the tests"
	@echo "make docs   build the documentation into site/ (warnings are errors)"
	@echo "make bench  compare speed with other tools"
	@echo "make lock   pin the newest versions of everything"

setup: $(READY)

$(READY): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("marginrank needs Python 3.11 or newer, not " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing pinned versions into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements/dev.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	@touch $@

$(BENCH_READY): requirements/bench.txt $(READY)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements/bench.txt
	@touch $@

demo: $(READY)
	@$(BIN)/python -m marginrank.demo

test: $(READY)
	$(BIN)/python -m pytest

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint test

docs: $(READY)
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs site

bench: $(BENCH_READY)
	$(BIN)/python benchmarks/reading.py
	$(BIN)/python benchmarks/evaluation.py
	$(BIN)/python benchmarks/losses.py

lock:
	mkdir -p requirements
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip hatchling
	$(BIN)/python -m pip install --quiet --group dev '.[all]'
	$(BIN)/python -m pip freeze --exclude marginrank | grep -v ' @ ' > requirements/dev.txt
	$(BIN)/python -m pip install --quiet --group bench
	$(BIN)/python -m pip freeze --exclude marginrank | grep -v ' @ ' > requirements/bench.txt

clean:
	rm -rf $(VENV) site out build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
