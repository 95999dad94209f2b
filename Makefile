# Every target is one plain command; README.md lists them for those without make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile
export OMP_WAIT_POLICY := PASSIVE

.PHONY: check quick test test-all types lint bench acceptance coq clean

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "copycert needs Python 3.11 or newer, this is " + sys.version.split()[0] + "; call make PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test]'
	@touch $(STAMP)

check: $(STAMP)
	$(BIN)/copycert check --rho 20000

quick: $(STAMP)
	$(PYTEST) -m "not slow and not deep"

test: $(STAMP)
	$(PYTEST) -m "not deep"

test-all: test
	$(PYTEST) -m deep

types: $(STAMP)
	$(BIN)/python -m mypy

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

bench: $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test,bench]'
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.encodings

coq:
	cd proofs_check/coq && ./check.sh

acceptance: $(STAMP)
	$(BIN)/python -m benchmarks.acceptance
	$(BIN)/python -m benchmarks.training --parts grid star others uniform long lists
	$(BIN)/python -m benchmarks.minimisers
	$(BIN)/python -m benchmarks.minimiser_comparison
	$(BIN)/python -m benchmarks.certify_seeds
	$(BIN)/python -m benchmarks.certify_campaign
	$(BIN)/python -m benchmarks.certify_hostile
	$(BIN)/python -m benchmarks.certify_forged
	$(BIN)/python -m benchmarks.certify_branching

clean:
	rm -rf $(VENV) build dist *.egg-info
