# Every target makes what it needs: `make test` in a fresh clone is enough.

BIN := .venv/bin
READY := .venv/.ready
DOCS_READY := .venv/.ready-docs

# What `make serve` passes on, such as ARGS="--store memory:"
ARGS ?=
# How long the simulator and the fuzzer look; `make test` takes a small share of the simulator.
SEEDS ?= 20000
SEEDS_IN_TEST ?= 2000
SECONDS_OF_FUZZ ?= 60
SECONDS_OF_SOAK ?= 30
SECONDS_OF_STEADY ?= 600
ROUNDS_OF_CRASH ?= 200
TRIALS ?= 10000
TRIALS_OF_PROCESSES ?= 200

# The files whose every branch has to be tried by the tests.
FULLY_COVERED := */holdfast/words.py,*/holdfast/engine/*,*/holdfast/wire/*

# The package with the path of a request compiled; see docs/decisions/0004-compiled-hot-path.md.
FAST := $(CURDIR)/build/fast
# These wait more than they work, for real processes and databases; they run beside all others.
TESTS_OF_CLIENTS := tests/aio tests/bench tests/cli tests/client tests/docs tests/leases tests/watchdog
# These run once more on it: what is compiled must behave as what is read.
TESTS_OF_COMPILED := tests/engine tests/wire tests/doors tests/stores tests/stories tests/test_desk.py tests/test_server.py

.PHONY: help serve test test-of-service test-of-clients test-of-compiled check bench sim trials fuzz soak steady crash docs clean programs fast

help:
	@echo "make serve   run the service in the foreground (ARGS=... are its options)"
	@echo "make test    everything that must be green: check, tests with coverage, a share of the simulator"
	@echo "make check   lint, format, types, imports, a test file for each source file, the made files as they would be made"
	@echo "make bench   measure against a bare C server and, where it is installed, Redis"
	@echo "make sim     the simulator, long (SEEDS=$(SEEDS))"
	@echo "make trials  whether clients know when they have lost a lease (TRIALS=$(TRIALS) TRIALS_OF_PROCESSES=$(TRIALS_OF_PROCESSES))"
	@echo "make fuzz    the codecs under random bytes (SECONDS_OF_FUZZ=$(SECONDS_OF_FUZZ))"
	@echo "make soak    50 callers on 5 keys of a real server (SECONDS_OF_SOAK=$(SECONDS_OF_SOAK))"
	@echo "make steady  a long load over HTTP on a file, and whether memory stays flat (SECONDS_OF_STEADY=$(SECONDS_OF_STEADY))"
	@echo "make crash   a server killed again and again under load (ROUNDS_OF_CRASH=$(ROUNDS_OF_CRASH))"
	@echo "make docs    the pages of docs/ as HTML in build/docs"
	@echo "make clean   remove what make made"

$(READY): pyproject.toml constraints.txt tools/venv.sh
	tools/venv.sh dev
	@touch $@

$(DOCS_READY): $(READY)
	tools/venv.sh dev docs
	@touch $@

# The tests and the measurements use a C compiler; the tests run the examples of the README, in all of their languages,
# and keep leases in real databases.
programs:
	@tools/need.sh cc curl initdb mariadbd nc node perl

# It looks by itself whether anything has changed.
fast: $(READY)
	@$(BIN)/python -m tools.compile

serve: fast
	PYTHONPATH=$(FAST) exec $(BIN)/holdfast serve $(ARGS)

check: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy --strict
	@PYRIGHT_PYTHON_CACHE_DIR=.venv/pyright $(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/python -m tools.mirror
	$(BIN)/python -m tools.faces --check

# Three parts run side by side: what is read, with coverage, in two of them; and what is compiled, with a share of the
# simulator.
test: programs check fast
	@mkdir -p build
	@rm -f build/coverage build/coverage.*
	@$(MAKE) --no-print-directory --jobs=3 --output-sync=target test-of-service test-of-clients test-of-compiled
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report
	$(BIN)/coverage report --include='$(FULLY_COVERED)' --fail-under=100

test-of-service:
	$(BIN)/coverage run --parallel-mode -m pytest $(TESTS_OF_CLIENTS:%=--ignore=%)

test-of-clients:
	$(BIN)/coverage run --parallel-mode -m pytest $(TESTS_OF_CLIENTS)

test-of-compiled:
	PYTHONPATH=$(FAST) $(BIN)/python -m pytest $(TESTS_OF_COMPILED)
	$(BIN)/python -m sim --seeds $(SEEDS_IN_TEST)

bench: programs fast
	PYTHONPATH=$(FAST) $(BIN)/python -m bench.run $(ARGS)

sim: $(READY)
	$(BIN)/python -m sim --seeds $(SEEDS)

trials: $(READY)
	$(BIN)/python -m sim leases --trials $(TRIALS)
	$(BIN)/python -m bench.lease_trials --trials $(TRIALS_OF_PROCESSES) --at-once 20

fuzz: $(READY)
	$(BIN)/python -m fuzz --seconds $(SECONDS_OF_FUZZ)

soak: fast
	PYTHONPATH=$(FAST) $(BIN)/python -m bench.soak --seconds $(SECONDS_OF_SOAK)

steady: programs fast
	PYTHONPATH=$(FAST) $(BIN)/python -m bench.steady --seconds $(SECONDS_OF_STEADY)

crash: fast
	PYTHONPATH=$(FAST) $(BIN)/python -m bench.crash --rounds $(ROUNDS_OF_CRASH)

docs: $(DOCS_READY)
	$(BIN)/sphinx-build -q -b html docs build/docs

clean:
	rm -rf build dist .venv src/*.egg-info .coverage .hypothesis
	rm -rf .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
