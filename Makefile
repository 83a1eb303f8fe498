# Every target installs what it needs: python3 (3.11 or newer) and make are enough to begin with.
PYTHON ?= python3
UV_VERSION := 0.13.7
TOOLS := .venv-tools
UV := $(TOOLS)/bin/uv
BIN := .venv/bin
INSTALLED := .venv/.installed
NEED := sh scripts/need.sh
CONSOLE := $(BIN)/python scripts/console_project.py
TSC := node_modules/typescript/bin/tsc
# Some tests wait for a browser, a server or another process: a few more than there are cores.
WORKERS ?= $(shell $(PYTHON) -c "import os; print((os.cpu_count() or 2) + 2)")
MODEL ?=
PORT ?= 8080
KILLS ?= 300
COVERAGE ?=
WHOLE ?=
COVERAGE_FLOOR := 95
MEASURED := --cov --cov-report=term --cov-fail-under=$(COVERAGE_FLOOR)

# Or each worker of the tests, and each process that a test starts, would compile the sources anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install run examples console screenshots quick test mutants check format bench bench-local bench-peers clients bfcl crash crash-fleet docs clean

help:
	@echo "make run     the gateway with a model of this machine and a few tools; MODEL=smol for the light one"
	@echo "make examples   small programs against a scripted model"
	@echo "make console   the page at /, built into the package; make screenshots   its pictures in docs/images"
	@echo "make quick   the tests that need no other process, browser or server: after every edit, in a minute"
	@echo "make test    the tests; COVERAGE=1 for coverage and its floor, WHOLE=1 for what is sampled otherwise"
	@echo "make mutants   changes the code in small ways and reports what no test notices; ARGS=\"--count 10 src/windlass/loop\""
	@echo "make check   lint, formatting, types, import layers"
	@echo "make format  put right what ruff can"
	@echo "make bench   Windlass beside a raw aiohttp loop and the openai SDK"
	@echo "make bench-local   the embedded models: which tools they choose, and the whole loop"
	@echo "make clients   real clients that demand a call of the gateway, in Python and Node"
	@echo "make bfcl    every gold call of BFCL in every format, and its tasks"
	@echo "make crash   kills a gateway 300 times, or KILLS, pauses it, fills its disk, and checks that nothing is lost"
	@echo "make crash-fleet   the same for gateways, workers and NATS servers of a fleet"
	@echo "make docs    run every example in the documentation"
	@echo "make clean   remove what the other targets made"

install: $(INSTALLED)

run: $(INSTALLED)
	@$(NEED) libgomp.so.1:libgomp1
	@trap : INT; MODEL=$(MODEL) $(BIN)/windlass demo --port $(PORT) || test $$? = 130  # Ctrl-C

examples: $(INSTALLED)
	@$(BIN)/python examples/run_all.py

# Its sources are in console/; what they build to is committed, so that nobody else needs Node.
console: $(INSTALLED)
	@$(BIN)/python scripts/console_types.py
	@$(CONSOLE) $(TSC) -p .
	@$(CONSOLE) build.mjs

screenshots: $(INSTALLED)
	@$(NEED) libgomp.so.1:libgomp1 chromium:chromium
	@WINDLASS_SCREENSHOTS=1 $(BIN)/pytest -q -n0 --timeout 1800 tests/console/test_console_screenshots.py $(ARGS)

quick: $(INSTALLED)
	@WINDLASS_TEST_QUICK=1 $(BIN)/pytest -q -n 2 --dist worksteal --durations=10 --durations-min=1 $(ARGS)

# A file's tests share a gateway or a browser. By their number, the few and slow ones would come last.
test: $(INSTALLED)
	@$(NEED) libgomp.so.1:libgomp1 tmux:tmux chromium:chromium
	@WINDLASS_TEST_WHOLE=$(WHOLE) $(BIN)/pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder --durations=10 --durations-min=1 $(if $(COVERAGE),$(MEASURED)) $(ARGS)

mutants: $(INSTALLED)
	@$(BIN)/python scripts/mutants.py $(ARGS)

check: $(INSTALLED)
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/basedpyright
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python scripts/console_types.py --check
	@$(CONSOLE) $(TSC) -p .
	@$(CONSOLE) $(TSC) -p test

format: $(INSTALLED)
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

bench: $(INSTALLED)
	@$(NEED) chromium:chromium
	@$(BIN)/python bench/run.py $(ARGS)

bench-local: $(INSTALLED)
	@$(BIN)/python bench/local.py $(ARGS)

bench-peers: $(INSTALLED)
	@$(UV) venv --quiet --allow-existing bench/.venv-peers
	@$(UV) pip install --quiet --python bench/.venv-peers/bin/python 'litellm[proxy]==1.106.2' opentelemetry-sdk

# Their packages are pinned in bench/clients, in environments of their own.
clients: $(INSTALLED)
	@$(UV) venv --quiet --allow-existing bench/.venv-clients
	@$(UV) pip sync --quiet --python bench/.venv-clients/bin/python bench/clients/requirements.txt
	@cd bench/clients && PATH="$(CURDIR)/$(BIN):$$PATH" npm ci --no-audit --no-fund --loglevel=error --silent
	@$(BIN)/python bench/clients/run.py $(ARGS)

crash: $(INSTALLED)
	@WINDLASS_CRASH_KILLS=$(KILLS) $(BIN)/pytest -q -s -n0 tests/crash/test_crashes.py tests/crash/test_fork_crashes.py $(ARGS)

crash-fleet: $(INSTALLED)
	@WINDLASS_FLEET_KILLS=$(KILLS) WINDLASS_CLUSTER_KILLS=$$(($(KILLS) / 4 + 1)) $(BIN)/pytest -q -s -n0 tests/crash/test_fleet_crashes.py $(ARGS)

bfcl: $(INSTALLED)
	@BFCL_WHOLE=1 $(BIN)/pytest -q -n $(WORKERS) tests/bfcl $(ARGS)

docs: $(INSTALLED)
	@$(BIN)/pytest -q tests/test_docs.py $(ARGS)

clean:
	rm -rf .venv .venv-tools bench/.venv-peers bench/.venv-clients bench/clients/node_modules console/node_modules build dist htmlcov .coverage* .hypothesis .import_linter_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -not -path './.git/*' -prune -exec rm -rf {} +

# The lock is the truth: a pyproject.toml that has moved away from it is an error here, not a new lock.
$(INSTALLED): pyproject.toml uv.lock $(UV)
	@echo "Installing into .venv (about 1.5 GB with the embedded model; once)" >&2
	@if [ -t 2 ]; then quiet=; else quiet=--quiet; fi; $(UV) sync --locked $$quiet --compile-bytecode
	@touch $@

# Debian ships `python3 -m venv` half installed: its ensurepip is in the package python3-venv.
$(UV):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "Windlass needs Python 3.11 or newer; say which with: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	    { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	      { apt-get update -qq && apt-get install -y -qq python3-venv; } >/dev/null; } || \
	    { echo "python3 cannot make virtual environments; on Debian: apt-get install python3-venv" >&2; exit 1; }
	@$(PYTHON) -m venv $(TOOLS)
	@$(TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
