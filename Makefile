# Everything that a clone needs is made here, in .venv beside this file.
# `make` alone lists the targets. Another interpreter: make PYTHON=python3.12 …

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# litellm would fetch a price list when it is imported.
export LITELLM_LOCAL_MODEL_COST_MAP := True
export PIP_DISABLE_PIP_VERSION_CHECK := 1

PIP = $(BIN)/python -m pip install --quiet
LOCK = $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-strip-extras \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" pyproject.toml

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-llm check format lock docs clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/.runtime  ## score three versions of a made-up agent and compare them (no key, no broker)
	@rm -rf demo && mkdir demo
	$(BIN)/stef demo-log demo/agent.jsonl
	STEF_LOG=demo/agent.jsonl $(BIN)/stef consume consumers/jsonl.yaml --store demo/stef.db
	$(BIN)/stef compare --store demo/stef.db

test: $(VENV)/.dev  ## run the tests (STEF_TEST_KAFKA=host:port adds those that need a broker)
	$(BIN)/python -m pytest $(ARGS)

test-llm: $(VENV)/.dev  ## judge some records with a real model (STEF_TEST_LLM=http://host:port/v1)
	$(BIN)/python -m pytest tests/test_llm_real.py $(ARGS)

check: $(VENV)/.dev  ## lint, format, types, import layers, tables of the README, schemas
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python .ci/tables.py --check

format: $(VENV)/.dev  ## mend what ruff can mend by itself
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.dev  ## write the tables of the README and the schemas anew from the code
	$(BIN)/python .ci/tables.py --write

lock: $(VENV)/.dev  ## resolve the dependencies anew and pin them with their hashes
	$(LOCK) --extra codecs --extra build --output-file requirements.lock
	$(LOCK) --all-extras --constraint requirements.lock --output-file requirements-dev.lock

clean:  ## remove what make and the tools have made
	rm -rf $(VENV) demo build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage htmlcov
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Each stamp is written last, so that an interrupted install starts again.
$(VENV)/.made:
	@command -v $(PYTHON) >/dev/null || { \
		echo "$(PYTHON) was not found: install Python 3.11 or newer, or name one with make PYTHON=…" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "$$($(PYTHON) --version) is too old: stef needs 3.11 or newer; name another one with make PYTHON=…" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "$(PYTHON) cannot make virtual environments: install its venv module (Debian, Ubuntu: apt install python3-venv)" >&2; exit 1; }
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.runtime: requirements.lock pyproject.toml $(VENV)/.made
	@echo "Installing what stef needs into $(VENV) (once, about a minute)"
	$(PIP) --require-hashes -r requirements.lock
	$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: requirements-dev.lock pyproject.toml $(VENV)/.made
	@echo "Installing stef with its tools into $(VENV) (once, about a minute)"
	$(PIP) --require-hashes -r requirements-dev.lock
	$(PIP) --no-deps --no-build-isolation -e .
	@touch $(VENV)/.runtime $@
