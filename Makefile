# Two commands: `make demo` (the main job on the shipped table) and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
CONSTRAINTS := $(if $(CONSTRAIN),-c constraints.txt,)
# Processes that share the tests: one a core up to eight, or as many as are asked for.
WORKERS ?= auto
PYTEST = $(BIN)/python -m pytest --numprocesses $(WORKERS) --maxprocesses 8 --dist loadfile

# Tests start hundreds of processes: Python compiles margrave's modules once for all of them.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-pages test-extras test-slow lint ready docs clean

$(VENV)/.core: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "margrave needs Python 3.10 or newer; try: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) --upgrade pip
	$(PIP) $(CONSTRAINTS) -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.core constraints.txt
	$(PIP) $(CONSTRAINTS) -e '.[test,lint]'
	@touch $@

$(VENV)/.extras: $(VENV)/.dev
	$(PIP) $(CONSTRAINTS) -e '.[test,lint,boost,engines,gpu,docs]'
	@touch $@

demo: $(VENV)/.core
	$(BIN)/margrave demo --out demo-output --force

test: $(VENV)/.dev
	@$(MAKE) -j2 ready .pytest_cache/kernels/first
	$(PYTEST)

# The checks, and the test modules compiled once for all processes that share them.
ready: lint
	@$(BIN)/python -m pytest --collect-only -q > /dev/null

# The demo, whose run compiles most number kernels: in a minute of one core, beside the checks, and once for all
# processes. `tests/conftest.py` hands them out.
.pytest_cache/kernels/first: $(VENV)/.dev
	@mkdir -p .pytest_cache
	OMP_NUM_THREADS=1 NUMBA_CACHE_DIR=$(CURDIR)/$@ $(BIN)/margrave demo --out .pytest_cache/demo --force > .pytest_cache/demo.log 2>&1 \
	  || { cat .pytest_cache/demo.log; exit 1; }

# The long pages of the documentation, from top to end, with the noise that the fast tests draw.
test-pages: $(VENV)/.dev
	$(PYTEST) --dist load -m 'slow or not slow' -k from_its_top tests/test_pages_run.py

# What `make test` skips where the optional parts of margrave are missing; here a missing one is a failure.
test-extras: export MARGRAVE_REQUIRE_EXTRAS = 1
test-extras: $(VENV)/.extras
	$(PYTEST) -m 'needs_extra and not slow'
	$(PYTEST) -m slow tests/contracts/test_engine_contract.py

test-slow: $(VENV)/.dev
	$(PYTEST) --dist load -m slow

$(VENV)/.docs: $(VENV)/.core constraints.txt
	$(PIP) $(CONSTRAINTS) -e '.[docs]'
	@touch $@

# The site, into site/; without a network, warnings as errors.
docs: $(VENV)/.docs
	$(BIN)/mkdocs build --quiet

lint: $(VENV)/.dev
	$(BIN)/ruff check src tests bench docs/site
	$(BIN)/ruff format --check src tests bench docs/site
	$(BIN)/mypy

clean:
	rm -rf $(VENV) demo-output site build dist .mypy_cache .ruff_cache .pytest_cache
