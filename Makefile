# Everything runs in .venv, and the benchmarks in .venv-bench, made on first use from pinned versions.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNS := $(VENV)/.runs
TESTS := $(VENV)/.tests
READY := $(VENV)/.ready
LOCK := .venv-lock
BENCH := .venv-bench
DATA ?= ../shared/data
BENCH_BIN := $(BENCH)/bin
BENCH_READY := $(BENCH)/.ready

OLDEST := .venv-oldest
RELEASE := .venv-release
RELEASE_READY := $(RELEASE)/.ready

.PHONY: help setup demo quick test fuzz properties pathological coverage oldest torch jax xgboost engines frameworks check lint docs bench reproduce kills release-check lock audit clean

help:
	@echo "make demo      search NumPy, SciPy and scikit-learn with a learned ranker; writes out/demo.html"
	@echo "make quick     run the tests that are not marked slow"
	@echo "make test      run all tests"
	@echo "make check     ruff, mypy, import contracts, then all tests"
	@echo "make fuzz      read a million damaged files of all formats (COUNT=files; a quarter of an hour)"
	@echo "make kills     kill 1,000 commands at random moments (half an hour)"
	@echo "make properties  run the property tests with random seeds and more examples"
	@echo "make pathological  train every preset on odd data with five values of C (half an hour)"
	@echo "make coverage  run all tests and print the share of lines and branches they reach"
	@echo "make oldest    run the quick tests with the oldest supported dependencies"
	@echo "make torch     add PyTorch (several GB where it comes with CUDA), so that its tests run"
	@echo "make jax       add JAX, so that its tests run"
	@echo "make xgboost   add XGBoost for the CPU, so that its tests run"
	@echo "make engines   add LanceDB (180 MB) and clients of other search engines, so that their tests run"
	@echo "make frameworks  add PyTerrier, LangChain, LlamaIndex, Haystack, Optuna, MLflow and others, so that their tests run"
	@echo "make docs      build the documentation into site/ (warnings are errors)"
	@echo "make bench     compare speed with other tools (the first time it compiles dlib, for some ten minutes)"
	@echo "make reproduce DATA=folder  run or continue the experiments of the papers (experiments/results/costs.md has times)"
	@echo "make release-check  build the last commit twice, review it, try it in clean environments (a quarter of an hour;"
	@echo "                    PARTS='--only build extras' for some of it)"
	@echo "make lock      pin the newest versions of everything, with their hashes"
	@echo "make audit     look up known vulnerabilities of the pinned versions"

setup: $(READY)

# uv installs several times as fast as pip, which installs nothing but uv itself. It does not read the settings of pip, so
# an index that is set there is passed on. The demo leaves bytecode to the first import, as most of what is installed is
# never imported. Tests have it made before, on all cores: compiling makes some packages warn, and warnings in tests are
# errors. What is large and never imported is left out.
pip = $(dir $@)bin/python -m pip
uv_install = index=$${PIP_INDEX_URL:-$$($1/bin/python -m pip config get global.index-url 2>/dev/null)}; \
	VIRTUAL_ENV=$1 $1/bin/uv pip install --quiet --system-certs $${index:+--default-index "$$index"}
install = $(call uv_install,$(@D))
install_locked = $(install) --require-hashes --requirement

# What the demo needs comes first; what tests, and then linters and documentation, need is added when it is asked for.
$(RUNS): requirements/run.txt
$(BENCH_READY): requirements/bench.txt
$(RUNS) $(BENCH_READY): pyproject.toml requirements/install.txt
	@$(PYTHON) -c 'import sys; sys.exit("marginrank needs Python 3.11 or newer, not " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	@test -x $(dir $@)bin/python || $(PYTHON) -m venv $(dir $@)
	@echo "Installing pinned versions into $(@D) ..."
	@$(pip) install --quiet --disable-pip-version-check --require-hashes --requirement requirements/install.txt
	@$(install_locked) $(filter-out requirements/install.txt,$(filter requirements/%,$^))
	@$(install) --no-build-isolation --no-deps --editable .
	@touch $@

$(TESTS): requirements/test.txt $(RUNS)
	@echo "Installing what tests need into $(@D) ..."
	@$(install_locked) $<
	@$(dir $@)bin/python -W ignore -m compileall -qq -j 0 -x '/(tests?|pip|setuptools|fontTools|lexers|transformers|quantization|cuda|distutils|reference)/' $(dir $@)lib src || true
	@touch $@

$(READY): requirements/dev.txt $(TESTS)
	@echo "Installing the tools of development into $(@D) ..."
	@$(install_locked) $<
	@touch $@

demo: $(RUNS)
	@mkdir -p out
	@$(BIN)/marginrank demo --page out/demo.html --force

# A page of the documentation is one file, whose examples build on each other: files stay in one process.
# A process for each core: threads of linear algebra would only wait for each other. LightGBM makes as many as there are
# cores unless they are limited, and where another process has the core, they take twenty times as long. Tests start many
# interpreters, so bytecode is kept, even where the environment says otherwise. A process that ends at a time limit would
# meet the same test again if it were started anew.
PYTEST = PYTHONDONTWRITEBYTECODE= OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 OMP_THREAD_LIMIT=1 $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder --max-worker-restart 0

quick: $(TESTS)
	$(PYTEST) -m "not slow"

test: $(TESTS)
	$(PYTEST)

COUNT ?= 1000000

fuzz: $(TESTS)
	$(BIN)/python -m tests.fuzz $(COUNT)

kills: $(TESTS)
	$(BIN)/python -m tests.fuzz.kills 1000
	$(BIN)/python -m tests.fuzz.resumes 100
	for what in clients commands schedulers restarts; do $(BIN)/python -m tests.worker_kills $$what 10 || exit 1; done

properties: $(TESTS)
	HYPOTHESIS_PROFILE=fuzz $(PYTEST) -o time_limit=3600 -o faulthandler_timeout=3660 -m hypothesis tests

# Limits are measured by the clock, so nothing else should run meanwhile.
pathological: $(TESTS)
	$(BIN)/python -m tests.pathological

coverage: $(TESTS)
	$(PYTEST) --cov --cov-report=term:skip-covered

oldest:
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --upgrade pip
	$(OLDEST)/bin/python -m pip install --quiet --constraint requirements/oldest.txt --group test --editable '.[all]'
	$(OLDEST)/bin/python -m pytest -n auto --dist loadfile -m "not slow" -o filterwarnings=default

# Pinned tools of their own, so that what is checked is not what is developed with.
$(RELEASE_READY): requirements/release.txt
	@$(PYTHON) -c 'import sys; sys.exit("marginrank needs Python 3.11 or newer, not " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	@$(PYTHON) -m venv $(RELEASE)
	@$(RELEASE)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement $<
	@touch $@

release-check: $(RELEASE_READY)
	$(RELEASE)/bin/python -m release $(PARTS)

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/typos
	$(BIN)/python -m tests.project.prose

check: lint test

docs: $(READY)
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs site

# Every preset at every C of the grid would take hours.
PASSES := --C 1 --C 100 --C 10000 --preset svmmap --preset svmauc --preset ranksvm --preset ranksvm-squared --preset softmax
# Whole calls come first, then passes and rooflines. A tool that cannot be installed is left out, with the reason.
CATBOOST := 1.2.10
# Bytecode is kept, even where the environment says otherwise: users have it.
bench: export PYTHONDONTWRITEBYTECODE =
bench: $(BENCH_READY)
	@$(BENCH_BIN)/python -c 'import catboost, xgboost' 2>/dev/null || $(BENCH_BIN)/python -m pip install --quiet --disable-pip-version-check catboost==$(CATBOOST) xgboost-cpu==$(XGBOOST) || true
	$(BENCH_BIN)/python benchmarks/whole_calls.py
	$(BENCH_BIN)/python benchmarks/first_call.py
	$(BENCH_BIN)/python benchmarks/first_call.py --kernels
	$(BENCH_BIN)/python benchmarks/small.py
	$(BENCH_BIN)/python benchmarks/fitting.py
	$(BENCH_BIN)/python benchmarks/growth.py
	$(BENCH_BIN)/python benchmarks/training.py
	$(BENCH_BIN)/python benchmarks/scoring.py
	$(BENCH_BIN)/python benchmarks/serving.py
	$(BENCH_BIN)/python benchmarks/reading.py
	$(BENCH_BIN)/python benchmarks/evaluation.py
	$(BENCH_BIN)/python benchmarks/losses.py
	$(BENCH_BIN)/python benchmarks/fusion.py
	$(BENCH_BIN)/python benchmarks/half.py
	$(BENCH_BIN)/python benchmarks/additive.py
	$(BENCH_BIN)/python benchmarks/recommend.py
	$(BENCH_BIN)/python benchmarks/cluster.py passes
	$(BENCH_BIN)/python benchmarks/passes.py $(PASSES)
	$(BENCH_BIN)/python benchmarks/roofline.py

reproduce: $(TESTS)
	$(BIN)/python -m experiments run all --data $(DATA)

# PyTorch is several GB where it comes with CUDA, so nothing but this target installs it; tests that need it skip without.
TORCH := 2.13.0

torch: $(TESTS)
	@$(BIN)/python -c 'import torch' 2>/dev/null || $(BIN)/python -m pip install --quiet --disable-pip-version-check torch==$(TORCH)

JAX := 0.10.2

jax: $(TESTS)
	@$(BIN)/python -c 'import jax' 2>/dev/null || $(BIN)/python -m pip install --quiet --disable-pip-version-check jax==$(JAX)

# Without the libraries of CUDA that the package xgboost depends on.
XGBOOST := 3.2.0

xgboost: $(TESTS)
	@$(BIN)/python -c 'import xgboost' 2>/dev/null || $(BIN)/python -m pip install --quiet --disable-pip-version-check xgboost-cpu==$(XGBOOST)

# LanceDB alone is 180 MB, so nothing but this target installs what hybrid search in engines is tried with.
# This DuckDB is the newest one whose extension for full text is on PyPI.
ENGINES := elasticsearch==9.5.1 lancedb==0.40.0 opensearch-py==3.2.0 psycopg[binary]==3.3.9 qdrant-client==1.20.0 tantivy==0.27.0 \
	duckdb==1.5.5 duckdb-extensions==1.5.5 duckdb-extension-fts==1.5.5

# After the pinned DuckDB of the development tools, which has no such extension.
engines: $(READY)
	@$(BIN)/python -c 'import duckdb_extensions, elasticsearch, lancedb, opensearchpy, psycopg, qdrant_client, tantivy' 2>/dev/null || $(BIN)/python -m pip install --quiet --disable-pip-version-check $(ENGINES)

# A hundred packages, none of which marginrank needs.
FRAMEWORKS := cohere==7.3.1 haystack-ai==3.4.0 ir-datasets==0.6.3 langchain-classic==1.0.8 llama-index-core==0.14.25 \
	mlflow-skinny==3.17.2 optuna==5.0.0 python-terrier==1.0 ranx==0.3.21

frameworks: $(TESTS)
	@$(BIN)/python -c 'import importlib.util as u; raise SystemExit(any(u.find_spec(name) is None for name in ("cohere", "haystack", "ir_datasets", "langchain_classic", "llama_index", "mlflow", "optuna", "pyterrier", "ranx")))' || { $(call uv_install,$(VENV)) $(FRAMEWORKS); }

# For every platform and Python from 3.11.5 on, with the hashes of all wheels and sources.
compile = $(LOCK)/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11.5 --generate-hashes --no-annotate \
	--custom-compile-command 'make lock'
pin = $(compile) pyproject.toml requirements/build.in --output-file

lock:
	$(PYTHON) -m venv $(LOCK)
	$(LOCK)/bin/python -m pip install --quiet --upgrade uv
	$(pin) requirements/bench.txt --extra all --group dev --group bench
	$(pin) requirements/dev.txt --constraint requirements/bench.txt --extra all --group dev
	$(pin) requirements/test.txt --constraint requirements/bench.txt --extra all --group test
	$(pin) requirements/run.txt --constraint requirements/bench.txt
	$(compile) requirements/install.in --output-file requirements/install.txt
	$(compile) requirements/release.in --constraint requirements/bench.txt --constraint requirements/install.txt --output-file requirements/release.txt

audit:
	$(PYTHON) -m venv $(LOCK)
	$(LOCK)/bin/python -m pip install --quiet --upgrade pip-audit
	$(LOCK)/bin/pip-audit --strict --require-hashes --disable-pip $(foreach file,install run test dev bench release,--requirement requirements/$(file).txt)

clean:
	rm -rf $(VENV) $(BENCH) $(OLDEST) $(LOCK) $(RELEASE) docs/results docs/gallery site out build dist .coverage* .mypy_cache .ruff_cache .pytest_cache .hypothesis
