# Two commands: `make demo` (the main job on the shipped table) and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
CONSTRAINTS := $(if $(CONSTRAIN),-c constraints.txt,)

.PHONY: demo test test-slow lint clean

$(VENV)/.core: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "margrave needs Python 3.10 or newer; try: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) --upgrade pip
	$(PIP) $(CONSTRAINTS) -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.core constraints.txt
	$(PIP) $(CONSTRAINTS) -e '.[test,lint]'
	@touch $@

demo: $(VENV)/.core
	$(BIN)/margrave demo --out demo-output

test: lint
	$(BIN)/python -m pytest

test-slow: $(VENV)/.dev
	$(BIN)/python -m pytest -m slow

lint: $(VENV)/.dev
	$(BIN)/ruff check src tests bench
	$(BIN)/ruff format --check src tests bench
	$(BIN)/mypy

clean:
	rm -rf $(VENV) demo-output build dist .mypy_cache .ruff_cache .pytest_cache
