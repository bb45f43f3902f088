# Three commands for newcomers: `make demo`, `make federation` and `make test`. Each builds its own virtual environment first.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
PEERS ?= .venv-peers

.PHONY: demo federation test lint check docs reference wheels bench torture clean

$(VENV)/.installed: pyproject.toml constraints.txt $(wildcard src/sordino/kernels/source/*)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev,docs]"
	touch $@

demo: $(VENV)/.installed
	$(BIN)/sordino demo

federation: $(VENV)/.installed
	$(BIN)/sordino federate examples/federation.toml $(FEDERATION)

test: export PYTHONDONTWRITEBYTECODE := # many tests start Python, which then need not compile the package again
test: $(VENV)/.installed
	$(BIN)/python -m pytest -n auto --dist loadgroup

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: lint test

reference: $(VENV)/.installed
	$(BIN)/python -m sordino.reference.pages docs/reference

docs: reference
	$(BIN)/mkdocs build --strict

wheels: $(VENV)/.installed # one for any platform, and one with kernels for this one
	rm -rf build dist
	SORDINO_PURE=1 $(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

$(VENV)/.bench: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[bench]"
	touch $@

$(PEERS)/.installed: benchmarks/peers-constraints.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --constraint benchmarks/peers-constraints.txt torch "flwr[simulation]" pfl
	touch $@

bench: $(VENV)/.bench $(PEERS)/.installed
	SORDINO_BENCH_PEERS_PYTHON=$(PEERS)/bin/python $(BIN)/python -m benchmarks

torture: $(VENV)/.installed
	$(BIN)/sordino audit --self-test
	$(BIN)/python -m torture $(TORTURE)

clean:
	rm -rf $(VENV) $(PEERS) .pytest_cache .mypy_cache .ruff_cache .hypothesis runs
