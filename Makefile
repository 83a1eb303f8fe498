# Every target installs what it needs: python3 (3.11 or newer) and make are enough to begin with.
PYTHON ?= python3
UV_VERSION := 0.13.7
TOOLS := .venv-tools
UV := $(TOOLS)/bin/uv
BIN := .venv/bin
INSTALLED := .venv/.installed
DOCS_INSTALLED := .venv/.docs-installed
DOCS_ADDRESS ?= 127.0.0.1:8000
RELEASE_INSTALLED := .venv-release/.installed
NEED := sh scripts/need.sh
SHELL_OF_CHROMIUM := chromium-headless-shell:chromium-headless-shell
CONSOLE := $(BIN)/python scripts/console_project.py
TSC := node_modules/typescript/bin/tsc
# More workers than cores, because some tests wait for a browser, a server or another process.
CORES := $(shell $(PYTHON) -c "import os; print(os.cpu_count() or 2)")
WORKERS ?= $(shell expr $(CORES) + 4)
QUICK_WORKERS ?= $(shell expr $(CORES) + 2)
MODEL ?=
PORT ?= 8080
KILLS ?= 300
COVERAGE ?=
WHOLE ?=
COVERAGE_FLOOR := 95
MEASURED := --cov --cov-report=term --cov-fail-under=$(COVERAGE_FLOOR)

# Otherwise every worker, and every process that a test starts, would compile the sources again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install run examples console screenshots quick test mutants check format bench bench-local bench-peers clients bfcl crash crash-fleet docs docs-serve release clean

help:
	@echo "make run     run the gateway with the embedded model and a few tools; MODEL=smol for the small one"
	@echo "make examples   run the examples against a scripted model"
	@echo "make console   build the web page into the package; make screenshots   make its pictures in docs/images and build/screens"
	@echo "make quick   run the tests that start no process and load no weights, in less than a minute"
	@echo "make test    run the tests; COVERAGE=1 measures coverage, WHOLE=1 runs the long tests too"
	@echo "make mutants   make small changes to the code and report those that no test notices; ARGS=\"--count 10 src/windlass/loop\""
	@echo "make check   check lint, formatting, types and import layers"
	@echo "make format  fix lint errors and formatting with ruff"
	@echo "make bench   compare Windlass with a raw aiohttp loop and the openai SDK"
	@echo "make bench-peers   install the gateways that make bench compares with: LiteLLM and @musistudio/llms"
	@echo "make bench-local   measure the embedded models: tool choice and whole tasks"
	@echo "make clients   test the gateway with real clients that force a call, in Python and Node"
	@echo "make bfcl    test every gold call and task of BFCL, in every format"
	@echo "make crash   kill a gateway KILLS times (300), pause it, fill its disk, and check that nothing is lost"
	@echo "make crash-fleet   do the same with the gateways, workers and NATS servers of a fleet"
	@echo "make docs    build the documentation's site and check it: links, spelling, every example; make docs-serve   show it"
	@echo "make release   build a release, check it and try it in clean environments; uploads nothing"
	@echo "make clean   remove what the other targets made"

install: $(INSTALLED)

run: $(INSTALLED)
	@$(NEED) libgomp.so.1:libgomp1
	@trap : INT; MODEL=$(MODEL) $(BIN)/windlass demo --port $(PORT) || test $$? = 130  # Ctrl-C

examples: $(INSTALLED)
	@$(BIN)/python examples/run_all.py

# The sources are in console/. The built page is committed, so that only its developers need Node.
console: $(INSTALLED)
	@$(BIN)/python scripts/console_types.py
	@$(CONSOLE) $(TSC) -p .
	@$(CONSOLE) build.mjs

screenshots: $(INSTALLED)
	@$(NEED) libgomp.so.1:libgomp1 chromium:chromium
	@WINDLASS_SCREENSHOTS=1 WINDLASS_TEST_WHOLE=1 $(BIN)/pytest -q -n0 --timeout 1800 tests/console/test_console_states.py tests/console/test_console_screenshots.py $(ARGS)

quick: $(INSTALLED)
	@WINDLASS_TEST_QUICK=1 $(BIN)/pytest -q --forks $(QUICK_WORKERS) --durations=10 --durations-min=1 $(ARGS)

# The tests of a file share a gateway or a browser. tests/support/forking.py gives whole files to the workers.
test: $(INSTALLED)
	@$(NEED) libgomp.so.1:libgomp1 tmux:tmux chromium:chromium
	@$(NEED) $(SHELL_OF_CHROMIUM) || echo "Testing with chromium instead, which takes longer" >&2
	@WINDLASS_TEST_WHOLE=$(WHOLE) $(BIN)/pytest -q --forks $(WORKERS) --durations=10 --durations-min=1 $(if $(COVERAGE),$(MEASURED)) $(ARGS)

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
	@cd bench/node_peers && PATH="$(CURDIR)/$(BIN):$$PATH" npm ci --no-audit --no-fund --loglevel=error --silent

# The packages of the clients are pinned in bench/clients and installed into separate environments.
clients: $(INSTALLED)
	@$(UV) venv --quiet --allow-existing bench/.venv-clients
	@$(UV) pip sync --quiet --python bench/.venv-clients/bin/python bench/clients/requirements.txt
	@cd bench/clients && PATH="$(CURDIR)/$(BIN):$$PATH" npm ci --no-audit --no-fund --loglevel=error --silent
	@$(BIN)/python bench/clients/run.py $(ARGS)

crash: $(INSTALLED)
	@WINDLASS_CRASH_KILLS=$(KILLS) $(BIN)/pytest -q -s -n0 tests/crash/test_crashes.py tests/crash/test_fork_crashes.py $(ARGS)

crash-fleet: $(INSTALLED)
	@WINDLASS_TEST_WHOLE=1 WINDLASS_FLEET_KILLS=$(KILLS) WINDLASS_CLUSTER_KILLS=$$(($(KILLS) / 4 + 1)) $(BIN)/pytest -q -s -n0 tests/crash/test_fleet_crashes.py $(ARGS)

bfcl: $(INSTALLED)
	@BFCL_WHOLE=1 $(BIN)/pytest -q -n $(WORKERS) tests/bfcl $(ARGS)

# The site's tools belong to their own group, so that `make run` does not install them.
docs: $(DOCS_INSTALLED)
	@$(BIN)/python -m scripts.reference
	@$(BIN)/zensical build --strict --clean
	@$(BIN)/python scripts/site_check.py
	@$(BIN)/codespell --config .codespellrc README.md CHANGELOG.md CONTRIBUTING.md docs deploy examples scripts
	@WINDLASS_SITE=$(CURDIR)/build/site $(BIN)/pytest -q --forks 2 tests/test_docs.py tests/docs $(ARGS)

docs-serve: $(DOCS_INSTALLED)
	@$(BIN)/python -m scripts.reference
	@$(BIN)/zensical serve --dev-addr $(DOCS_ADDRESS)

release: $(INSTALLED) $(RELEASE_INSTALLED)
	@$(PYTHON) -m scripts.release $(ARGS)

clean:
	rm -rf .venv .venv-tools .venv-release docs/reference bench/.venv-peers bench/.venv-clients bench/clients/node_modules bench/node_peers/node_modules console/node_modules build dist htmlcov .coverage* .hypothesis .import_linter_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -not -path './.git/*' -prune -exec rm -rf {} +

# --locked: a pyproject.toml that does not match uv.lock is an error; it does not change the lock.
$(INSTALLED): pyproject.toml uv.lock $(UV)
	@echo "Installing into .venv (about 1.5 GB with the embedded model; once)" >&2
	@if [ -t 2 ]; then quiet=; else quiet=--quiet; fi; $(UV) sync --locked $$quiet --compile-bytecode
	@touch $@

$(DOCS_INSTALLED): $(INSTALLED)
	@$(UV) sync --locked --quiet --inexact --group docs
	@touch $@

$(RELEASE_INSTALLED): pyproject.toml uv.lock $(UV)
	@UV_PROJECT_ENVIRONMENT=.venv-release $(UV) sync --locked --quiet --only-group release
	@touch $@

# On Debian, `python3 -m venv` needs the package python3-venv.
$(UV):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "Windlass needs Python 3.11 or newer. Choose one with: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	    { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	      { apt-get update -qq && apt-get install -y -qq python3-venv; } >/dev/null; } || \
	    { echo "python3 cannot create virtual environments. On Debian: apt-get install python3-venv" >&2; exit 1; }
	@$(PYTHON) -m venv $(TOOLS)
	@$(TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
