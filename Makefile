# Two commands on a fresh machine: `make gate` and `make test`. Needs Python 3.11+, gcc or clang, and a package index.
PYTHON ?= python3
VENV ?= .venv
SUITE ?= smoke
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: gate test test-all lint clean

gate: $(STAMP)
	$(BIN)/chitree fetch
	$(BIN)/chitree gate --suite $(SUITE)

test: $(STAMP)
	$(BIN)/chitree fetch
	$(BIN)/pytest -q -n auto

test-all: $(STAMP)
	$(BIN)/chitree fetch
	$(BIN)/pytest -q -n auto -m ""

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[sim,torch,report,test,dev]'
	touch $(STAMP)

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
