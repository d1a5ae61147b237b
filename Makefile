# Everything one does with this repository. `make` alone lists the targets.
# Every target that runs code makes its environment first, from the pinned requirements, and only when they changed.

VENV := .venv
BENCH := .venv-bench
PEERS := $(BENCH) $(BENCH)-absurd $(BENCH)-temporal $(BENCH)-restate
BIN := $(VENV)/bin
SERIES := 3.11 3.12 3.13
PYTHON = $(shell .ci/find-python)
PIP_INSTALL := -m pip --disable-pip-version-check install --quiet

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help: ## List the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

.PHONY: setup
setup: $(VENV)/.ready ## Make the environment in .venv (PYTHON= chooses the interpreter)

.PHONY: demo
demo: $(VENV)/.ready ## Kill workers while invoices go through (ARGS="--seed 7 --invoices 50")
	$(BIN)/fencepost demo $(ARGS)

.PHONY: demo-approvals
demo-approvals: $(VENV)/.ready ## Let 200 runs wait for approval while workers are killed (ARGS="--seed 7")
	$(BIN)/fencepost demo --approvals $(ARGS)

.PHONY: console
console: $(VENV)/.ready ## Run the console with live traffic beside it, and print the link (ARGS="--port 0")
	$(BIN)/python -m fencepost.demo.live $(ARGS)

.PHONY: test
test: $(VENV)/.ready ## Run the tests on embedded parts alone (ARGS="tests/core -k fold")
	$(BIN)/python -m pytest $(ARGS)

.PHONY: zombies
zombies: $(VENV)/.ready ## Lose owners at each point of a dispatch, and let them come back (ARGS="--fault stopped")
	@.ci/services
	$(BIN)/python -m tests.zombies $(ARGS)

.PHONY: compensation
compensation: $(VENV)/.ready ## Go back from each failure at each effect of each order, and print what came of it (ARGS="--db URL")
	$(BIN)/python -m tests.compensation $(ARGS)

.PHONY: corpus
corpus: $(VENV)/.ready ## Store the histories of this version, for later ones to replay (ARGS=--again)
	$(BIN)/python -m tests.corpus $(ARGS)

.PHONY: chaos
chaos: $(VENV)/.ready ## Crash PostgreSQL, cut commits and kill workers under load (SECONDS=60 SEED=1)
	$(BIN)/python -m tests.chaos --seconds $(or $(SECONDS),60) --seed $(or $(SEED),1)

.PHONY: test-services
test-services: $(VENV)/.ready ## Run what speaks to real servers, which are started for it (ARGS="tests/services -k pooler")
	@.ci/services
	FENCEPOST_TEST_SERVICES=1 $(BIN)/python -m pytest $(or $(ARGS),$(ON_BOTH_DATABASES))

# What every ledger must do is tested on SQLite and on PostgreSQL side by side.
ON_BOTH_DATABASES := tests/services tests/store tests/runtime tests/receiving tests/scenarios tests/cli tests/console \
	tests/targets tests/zombies tests/compensation tests/telemetry tests/browser

.PHONY: api-fuzz
api-fuzz: $(VENV)/.ready ## Fuzz the HTTP API from its own schema, on both databases (SECONDS=40 SEED=1)
	@.ci/services
	FENCEPOST_TEST_SERVICES=1 SECONDS=$(or $(SECONDS),40) SEED=$(or $(SEED),1) \
	    $(BIN)/python -m pytest tests/console/test_fuzz.py

.PHONY: check
check: $(VENV)/.ready ## Lint, formatting, types, layers and house rules
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/tidy

.PHONY: format
format: $(VENV)/.ready ## Format the code and apply the lint fixes that are safe
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

.PHONY: bench
bench: $(VENV)/.ready ## Measure steps per second beside the ceiling and two peers (ARGS=--full)
	-@$(MAKE) --no-print-directory $(BENCH)/.ready # peers that cannot be installed are left out, the rest is measured
	$(BIN)/python -m bench $(ARGS)

# Each peer that cannot be installed or started is left out with a word; --keep-going tries them all.
.PHONY: bench-peers
bench-peers: $(VENV)/.ready ## Measure on PostgreSQL beside five peers (ARGS=--full); quick within 20 minutes
	-@$(MAKE) --no-print-directory --keep-going $(PEERS:%=%/.ready)
	$(BIN)/python -m bench.peers $(ARGS)

.PHONY: bench-console
bench-console: $(VENV)/.ready ## Measure the console's front page and search beside a million runs (ARGS="--runs 100000")
	@.ci/services
	$(BIN)/python -m bench.console $(ARGS)

.PHONY: test-each
test-each: ## Run the tests on each Python from 3.11 to 3.13 that the machine has
	@passed=; failed=; for series in $(SERIES); do \
	    python=$$(.ci/find-python $$series 2>/dev/null) || { echo "Python $$series: not on this machine"; continue; }; \
	    echo "Python $$series: $$python"; \
	    if $(MAKE) --no-print-directory test VENV=.venv-$$series PYTHON="$$python"; \
	    then passed="$$passed $$series"; else failed="$$failed $$series"; fi; \
	done; \
	echo "passed on:$${passed:- none}; failed on:$${failed:- none}"; \
	test -n "$$passed" -a -z "$$failed"

.PHONY: docs
docs: $(VENV)/.ready ## Generate the reference from docstrings and tables; take over the browser tests' pictures
	$(BIN)/python docs/generate.py
	@for picture in docs/pictures/*.png; do \
	    taken="build/screenshots/$${picture##*/}"; if [ -f "$$taken" ]; then cp "$$taken" "$$picture"; fi; \
	done

.PHONY: site
site: $(VENV)/.ready ## Build the documentation site, build/site (needs Graphviz)
	@.ci/services graphviz
	$(BIN)/sphinx-build --quiet --fresh-env --fail-on-warning --keep-going -c docs/site docs build/site
	@echo "build/site/index.html"

.PHONY: lock
lock: ## Pin the newest requirements that fit (needs uv)
	uv pip compile $(LOCK_OPTIONS) --output-file requirements/dev.txt pyproject.toml requirements/dev.in
	uv pip compile $(LOCK_OPTIONS) --constraint requirements/dev.txt --output-file requirements/bench.txt pyproject.toml requirements/bench.in
	for peer in absurd temporal restate; do \
	    uv pip compile $(LOCK_OPTIONS) --constraint requirements/dev.txt \
	        --output-file requirements/bench-$$peer.txt requirements/bench-$$peer.in || exit; done

# One file for every supported Python and platform. No header, paths, index or address may enter it: tests/tidy looks.
LOCK_OPTIONS := --universal --python-version 3.11 --generate-hashes --upgrade --quiet \
    --no-header --no-annotate --no-emit-index-url --no-emit-find-links

.PHONY: clean
clean: ## Remove environments, caches and what the demo left
	rm -rf $(VENV) $(PEERS) $(SERIES:%=.venv-%) var build dist .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps come last, so that an interrupted set-up is done again.
$(VENV)/.ready: requirements/dev.txt pyproject.toml
	$(call make_environment,$(VENV),requirements/dev.txt)
	$(BIN)/python $(PIP_INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

# The peers run beside Fencepost, not with it.
$(BENCH)/.ready: requirements/bench.txt
	$(call make_environment,$(BENCH),requirements/bench.txt)
	@touch $@

$(BENCH)-%/.ready: requirements/bench-%.txt
	$(call make_environment,$(BENCH)-$*,requirements/bench-$*.txt)
	$(if $(filter restate,$*),$(call install_restate_server,$(BENCH)-restate))
	@touch $@

# $(call install_restate_server,FOLDER): npm is the only registry that has it as a program.
define install_restate_server
cp bench/restate-server/package.json bench/restate-server/package-lock.json $(1)/
npm ci --prefix $(1) --ignore-scripts --no-audit --no-fund --silent
endef

# $(call make_environment,FOLDER,LOCK)
define make_environment
@test -n "$(PYTHON)"
"$(PYTHON)" -m venv $(1)
$(1)/bin/python $(PIP_INSTALL) --require-hashes --requirement $(2)
endef
