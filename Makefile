# Everything runs in .venv, and the benchmarks in .venv-bench, made on first use from pinned versions.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNS := $(VENV)/.runs
READY := $(VENV)/.ready
BENCH := .venv-bench
DATA ?= ../shared/data
BENCH_BIN := $(BENCH)/bin
BENCH_READY := $(BENCH)/.ready

OLDEST := .venv-oldest

.PHONY: help setup demo quick test fuzz properties pathological coverage oldest check lint docs bench reproduce lock clean

help:
	@echo "make demo      learn image search on scikit-learn's digits; writes out/demo.html"
	@echo "make quick     run the tests that are not marked slow"
	@echo "make test      run all tests"
	@echo "make check     ruff, mypy, import contracts, then all tests"
	@echo "make fuzz      read a million damaged files of all formats (COUNT=files; a quarter of an hour)"
	@echo "make properties  run the property tests with random seeds and more examples"
	@echo "make pathological  train every preset on odd data with five values of C (half an hour)"
	@echo "make coverage  run all tests and print the share of lines and branches they reach"
	@echo "make oldest    run the quick tests with the oldest supported dependencies"
	@echo "make docs      build the documentation into site/ (warnings are errors)"
	@echo "make bench     compare speed with other tools (the first time it compiles dlib, for some ten minutes)"
	@echo "make reproduce DATA=folder  run the experiments of the papers (20 minutes on two cores)"
	@echo "make lock      pin the newest versions of everything"

setup: $(READY)

# The demo leaves bytecode to the first import, as most of what is installed is never imported. Tests have it made before,
# on all cores: compiling makes some packages warn, and warnings in tests are errors.
install = $(dir $@)bin/python -m pip install --quiet --disable-pip-version-check --no-compile

# What the demo needs comes first; the tools of development are added when they are asked for.
$(RUNS): requirements/run.txt
$(BENCH_READY): requirements/bench.txt
$(RUNS) $(BENCH_READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("marginrank needs Python 3.11 or newer, not " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	@test -x $(dir $@)bin/python || $(PYTHON) -m venv $(dir $@)
	@echo "Installing pinned versions into $(@D) ..."
	@$(install) --requirement $(filter requirements/%,$^)
	@$(install) --no-build-isolation --no-deps --editable .
	@touch $@

$(READY): requirements/dev.txt $(RUNS)
	@echo "Installing the tools of development into $(@D) ..."
	@$(install) --requirement $<
	@$(dir $@)bin/python -W ignore -m compileall -qq -j 0 $(dir $@)lib || true
	@touch $@

demo: $(RUNS)
	@mkdir -p out
	@$(BIN)/marginrank demo --page out/demo.html --force

# A page of the documentation is one file, whose examples build on each other: files stay in one process.
PYTEST = $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

quick: $(READY)
	$(PYTEST) -m "not slow"

test: $(READY)
	$(PYTEST)

COUNT ?= 1000000

fuzz: $(READY)
	$(BIN)/python -m tests.fuzz $(COUNT)

properties: $(READY)
	HYPOTHESIS_PROFILE=fuzz $(PYTEST) -m hypothesis tests

# Limits are measured by the clock, so nothing else should run meanwhile.
pathological: $(READY)
	$(BIN)/python -m tests.pathological

coverage: $(READY)
	$(PYTEST) --cov --cov-report=term:skip-covered

oldest:
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --upgrade pip
	$(OLDEST)/bin/python -m pip install --quiet --constraint requirements/oldest.txt --group test --editable '.[all]'
	$(OLDEST)/bin/python -m pytest -n auto --dist loadfile -m "not slow" -o filterwarnings=default

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint test

docs: $(READY)
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs site

bench: $(BENCH_READY)
	$(BENCH_BIN)/python benchmarks/reading.py
	$(BENCH_BIN)/python benchmarks/evaluation.py
	$(BENCH_BIN)/python benchmarks/losses.py
	$(BENCH_BIN)/python benchmarks/additive.py
	$(BENCH_BIN)/python benchmarks/training.py

reproduce: $(READY)
	$(BIN)/python -m experiments run all --data $(DATA)

lock:
	mkdir -p requirements
	rm -rf $(VENV) $(BENCH)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip hatchling
	$(BIN)/python -m pip install --quiet --group dev '.[all]'
	$(BIN)/python -m pip freeze --exclude marginrank | grep -v ' @ ' > requirements/dev.txt
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint requirements/dev.txt hatchling '.[plot]'
	$(BIN)/python -m pip freeze --exclude marginrank | grep -v ' @ ' > requirements/run.txt
	$(PYTHON) -m venv $(BENCH)
	$(BENCH_BIN)/python -m pip install --quiet --upgrade pip
	$(BENCH_BIN)/python -m pip install --quiet --requirement requirements/dev.txt --group bench
	$(BENCH_BIN)/python -m pip freeze --exclude marginrank | grep -v ' @ ' > requirements/bench.txt

clean:
	rm -rf $(VENV) $(BENCH) $(OLDEST) docs/results site out build dist .coverage* .mypy_cache .ruff_cache .pytest_cache .hypothesis
