# `make demo` shows the whole thing, `make test` proves it. Both install what they need.
SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	command -v $$p >/dev/null && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
PACKAGES := tieline_common tieline_core tieline_protocol tieline_operator tieline_api tieline tieline_pytest tieline_cluster
SOURCES := core operator api runtime cluster tests bench examples

.DEFAULT_GOAL := help
.PHONY: help demo demo-down test test-unit lint format crds constraints faults bench console console-types console-lint screenshots

help: ## Show this
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(VENV)/.installed: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11 or later is needed: install python3 and try again" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "Installing python3-venv"; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv; }
	@echo "Installing Python packages into $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r constraints.txt
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-index --no-deps --no-build-isolation -e .
	@touch $@

demo: $(VENV)/.installed ## From nothing to a running integration on a local Kubernetes
	$(BIN)/python -m tieline_cluster.demo up $(DEMO)

demo-down: $(VENV)/.installed ## Remove all that the demo started
	$(BIN)/python -m tieline_cluster.demo down $(DEMO)

lint: $(VENV)/.installed console-lint ## Format, lint, types, import contracts, generated files
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/mypy $(PACKAGES:%=-p %)
	$(BIN)/lint-imports
	$(BIN)/python -m tieline_core.crds crds --check

format: $(VENV)/.installed ## Format the code
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/ruff check --fix $(SOURCES)

test: lint ## Everything: checks, unit tests, then a real cluster
	$(BIN)/python -m tests

test-unit: $(VENV)/.installed ## The fast tests
	$(BIN)/pytest tests/unit -m fast

crds: $(VENV)/.installed ## Generate crds/ from the models
	$(BIN)/python -m tieline_core.crds crds

console: ## Build the console's files into console/dist
	@console/build

console-types: $(VENV)/.installed ## Generate the console's types from the API's OpenAPI document
	@$(BIN)/python -m tieline_api.openapi_file > console/openapi.json
	@console/build types

console-lint: console-types
	@console/build check
	@console/build test

screenshots: $(VENV)/.installed ## Take the pictures of the console in docs/console
	SCREENSHOTS=docs/console $(BIN)/pytest -q tests/integration/api/console/test_screenshots.py

constraints: ## Pin the newest versions of everything, with hashes; KEEP=1 keeps the versions that are pinned
	@PYTHON=$(PYTHON) requirements/pin $(if $(KEEP),--keep)

faults: $(VENV)/.installed ## Kill, pause and starve everything for a quarter of an hour; SEED= repeats one
	$(BIN)/python -m tests.faults $(if $(SEED),--seed $(SEED)) $(FAULTS)

bench: $(VENV)/.installed ## Measure, and print tables
	$(BIN)/python -m bench
