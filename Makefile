# `make demo` shows the whole thing, `make test` proves it. Both install what they need.
SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip --quiet --disable-pip-version-check
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	command -v $$p >/dev/null && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
PACKAGES := tieline_catalogue tieline_common tieline_core tieline_engine tieline_protocol tieline_operator tieline_api tieline tieline_pytest tieline_cluster deploy.release
PROOFS := TIELINE_WRITE_PROVEN=1 TIELINE_TEST_CLUSTER=$${TIELINE_TEST_CLUSTER:-dev} TIELINE_TEST_KEEP=1 \
	$(BIN)/pytest tests/unit/emulator/test_entries.py tests/integration/catalogue/test_entries.py
SOURCES := core operator api runtime cluster deploy tests bench examples hatch_build.py

# Processes that tests start would otherwise compile every module again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo demo-down test test-unit coverage test-one test-seeds lint format manifests catalogue-check provider-test provider-proofs constraints faults bench console console-types console-lint python-lint release screenshots

help: ## Show this
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(VENV)/.installed: pyproject.toml deploy/platform/pyproject.toml cluster/pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11 or later is needed: install python3 and try again" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "Installing python3-venv"; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv; }
	@echo "Installing Python packages into $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@sed -n '/^uv==/,/[^\\]$$/p' constraints.txt > $(VENV)/uv.txt
	@$(PIP) install --require-hashes -r $(VENV)/uv.txt
	@# uv takes a tenth of pip's time. pip is the fallback: it reads index settings that uv does not.
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r constraints.txt 2> $(VENV)/uv.log \
		|| $(PIP) install --require-hashes -r constraints.txt
	@# One after the other: an older `tieline` that has all commands takes them away with it.
	@$(PIP) install --no-index --no-deps --no-build-isolation -e .
	@$(PIP) install --no-index --no-deps --no-build-isolation -e deploy/platform -e cluster
	@touch $@

demo: $(VENV)/.installed ## From nothing to a running integration on a local Kubernetes
	$(BIN)/python -m tieline_cluster.demo up $(DEMO)

demo-down: $(VENV)/.installed ## Remove all that the demo started
	$(BIN)/python -m tieline_cluster.demo down $(DEMO)

lint: $(VENV)/.installed ## Format, lint, types, import contracts, generated files
	@$(MAKE) --no-print-directory -j2 --output-sync=target python-lint console-lint

python-lint: $(VENV)/.installed
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/mypy $(PACKAGES:%=-p %)
	$(BIN)/lint-imports
	$(BIN)/python -m deploy.manifests --check
	$(BIN)/python -m tieline_core.catalogue
	$(BIN)/python -m tieline.cli.emulator_check
	$(BIN)/python -m deploy.provider_table --check
	$(BIN)/python -m deploy.sender_table --check
	$(BIN)/python -m deploy.sdk_completions --check

format: $(VENV)/.installed ## Format the code
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/ruff check --fix $(SOURCES)

test: lint ## Everything: checks, unit tests, then a real cluster
	$(BIN)/python -m tests

test-unit: $(VENV)/.installed ## The fast tests
	$(BIN)/python -m tests fast

coverage: $(VENV)/.installed ## The fast tests, and the lines that none of them runs; the least covered module first
	@rm -f .coverage .coverage.*
	TIELINE_COVERAGE=1 $(BIN)/python -m tests fast
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage report

test-one: $(VENV)/.installed ## One test on a cluster that stays up: T=tests/integration/resources/test_docs_on_a_cluster.py
	@test -n "$(T)" || { echo "Name a test: make test-one T=tests/integration/…" >&2; exit 1; }
	TIELINE_TEST_CLUSTER=$${TIELINE_TEST_CLUSTER:-dev} TIELINE_TEST_KEEP=1 $(BIN)/pytest $(T)

test-seeds: $(VENV)/.installed ## The tests with random failures, from another seed on: FIRST=100
	TIELINE_TEST_FIRST_SEED=$(or $(FIRST),100) $(BIN)/pytest -q tests/unit -k random_failures

manifests: $(VENV)/.installed ## Generate crds/, the chart's files, deploy/base and the tables of providers and of webhooks' senders
	$(BIN)/python -m deploy.manifests
	$(BIN)/python -m deploy.provider_table
	$(BIN)/python -m deploy.sender_table
	$(BIN)/python -m deploy.sdk_completions

catalogue-check: $(VENV)/.installed ## Check the catalogue's entries against the schema; KEY=github checks one
	$(BIN)/python -m tieline_core.catalogue $(KEY)
	$(BIN)/python -m tieline.cli.emulator_check $(KEY)

provider-test: $(VENV)/.installed ## Test an entry of the catalogue with the emulator, on a cluster that stays up: KEY=github
	@test -n "$(KEY)" || { echo "Name an entry: make provider-test KEY=github" >&2; exit 1; }
	$(BIN)/python -m tieline_core.catalogue $(KEY)
	$(BIN)/python -m tieline.cli.emulator_check $(KEY)
	TIELINE_CATALOGUE_KEYS=$(KEY) $(PROOFS)

provider-proofs: $(VENV)/.installed ## Test all entries of the catalogue so, and write the table of what was shown
	TIELINE_CATALOGUE_KEYS=all $(PROOFS); status=$$?; $(BIN)/python -m deploy.provider_table && exit $$status

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

release: $(VENV)/.installed ## Write everything that a publisher needs into dist; ONLY="chart wheels" builds these parts alone
	$(BIN)/python -m deploy.release $(if $(ONLY),--only $(ONLY)) $(if $(TAG),--expect $(TAG))

constraints: ## Pin the newest versions of everything, with hashes; KEEP=1 keeps the versions that are pinned
	@PYTHON=$(PYTHON) requirements/pin $(if $(KEEP),--keep)

faults: $(VENV)/.installed ## Kill, pause and starve everything for a quarter of an hour; SEED= repeats one
	$(BIN)/python -m tests.faults.events $(if $(SEED),--seed $(SEED)) --events 250 --pause 1.2 --rate 12 --publishers 6
	$(BIN)/python -m tests.faults $(if $(SEED),--seed $(SEED)) $(FAULTS)

bench: $(VENV)/.installed ## Measure, and print tables
	$(BIN)/python -m bench
