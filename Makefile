# `make` or `make help` lists the targets. PYTHON chooses the interpreter, VENV the folder.

PYTHON = python3
VENV = .venv
BIN = $(VENV)/bin

.PHONY: help demo bench install test lint format cover dist clean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-10s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

demo: $(VENV)/.package  ## Watch a small simulated job, about two minutes
	@$(BIN)/watch_inference --demo

bench: $(VENV)/.dev  ## Measure speed, CPU and memory against the usual tools
	$(BIN)/python -m tests.bench
	$(BIN)/python -m tests.bench_screen

install: $(VENV)/.dev  ## Make the virtual environment with all that development needs

test: $(VENV)/.dev  ## Run the tests
	$(BIN)/python -m pytest

lint: $(VENV)/.dev  ## Check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev  ## Put the code into the common form
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

cover: $(VENV)/.dev  ## Run the tests and show which lines they reach
	$(BIN)/coverage run -m pytest
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

dist: $(VENV)/.dev  ## Build the wheel and the source archive; the wheel is reproducible
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m build

clean:  ## Remove everything that was made here, the virtual environment too
	rm -rf $(VENV) .venv-* build dist *.egg-info .coverage* .pytest_cache .mypy_cache .ruff_cache
	find watch_inference tests -name __pycache__ -prune -exec rm -rf {} +

# Stamps: made again when what is installed has changed.
$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.package: setup.cfg pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.dev: setup.cfg pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ $(VENV)/.package
