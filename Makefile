# Entry point of all tasks: `make` alone prints help, and CI runs `make check`.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3.11
WORKERS ?= 2
CONFIG ?= tune_configs/regret_vs_epsilon.yaml
HALVING ?= halving_riverswim_3 halving_riverswim_6 halving_random_mdp
HALVING_ARGS ?=
HELD_OUT_ARGS ?=
HALVING_OUT ?= dprl_runs/halving
# Of torch the version whose CPU build we test; pyproject.toml allows a range, whose newest may bring gigabytes of CUDA.
TORCH ?= torch==2.13.0
PYTEST_ARGS ?=
BENCH_ARGS ?=

# Where Python is told to keep no byte code, every process reads the libraries' source anew: 17 s instead of 6 for all.
unexport PYTHONDONTWRITEBYTECODE

comma := ,
VENV := .venv
BIN := $(VENV)/bin
FOLDERS := privacy envs algorithms platform papers
SOURCES := $(FOLDERS) package benchmarks tests
# Tests of every folder that compile little: rules of the code, guarantees of noise, one learning loop, configs.
PRIVACY_SMOKE := accounting ledgers randomness counters/test_counters.py counts/test_privatizers.py mechanisms/test_calibration.py \
	mechanisms/test_continuous_laws.py mechanisms/test_sampling.py test_certificate.py
SMOKE := architecture package docs/test_doctests.py golden/test_certificates.py $(addprefix privacy/,$(PRIVACY_SMOKE)) envs/test_contract.py \
	algorithms/test_certificates.py algorithms/test_private_ucb_vi.py platform/configs/test_config.py platform/configs/test_experiment.py
PYTEST := $(BIN)/pytest -n $(WORKERS) --dist loadscope --no-loadscope-reorder

# Without --no-compile pip spends longer on byte code that is never used than on the installation itself. What it reports
# is shortened to a line in twenty packages; its errors are shown, its warnings (about mirrors, caches, running as root) are not.
PIP_INSTALL = $(BIN)/python -m pip install --no-compile --disable-pip-version-check --no-input --progress-bar off $(1) \
	2> >(grep -v '^WARNING' >&2) | awk ' \
	/^Collecting / {if (++found % 20 == 0) {print "    " found " packages found"; fflush()}} \
	/^Installing collected packages/ {print "    unpacking " gsub(/,/, "") + 1 " packages"; fflush()}'

.PHONY: help setup dev demo smoke test test-slow check lint typing format docs bench halving held-out clean

help:  ## this text
	@echo "dprl: differentially private reinforcement learning on Ray"
	@echo
	@awk -F ':.*  ## ' '/^[a-z-]+:.*  ## /{printf "  make %-10s %s\n", $$1, $$2}' Makefile
	@echo
	@echo "  PYTHON=python3.12 (when $(VENV) is made), CONFIG=file.yaml (demo), WORKERS=4 (tests),"
	@echo "  PYTEST_ARGS='-k ledger' (tests), BENCH_ARGS=--quick (bench)"

setup: $(VENV)/.installed  ## make .venv from the project's files; .venv/bin/dprl is then the command
	@:

dev: $(VENV)/.installed-dev  ## the same with the test tools
	@:

demo:  ## set up, run the main job (CONFIG), say where to look
	@start=$$SECONDS; \
	echo "1/3 environment"; \
	$(MAKE) --no-print-directory setup; \
	ready=$$SECONDS; \
	echo "2/3 sweep $(CONFIG)"; \
	$(BIN)/dprl sweep $(CONFIG); \
	echo "3/3 done: environment $$((ready - start)) s, sweep $$((SECONDS - ready)) s"; \
	echo "    the report      report.html in the folder named above: figures, tables, tests; certificate.html in each cell's"; \
	echo "    all runs        $(BIN)/dprl ui   (open the sweep with +, tick its cells, Compare; a metric's name shows its curves)"; \
	echo "    algorithms      $(BIN)/dprl sweep private_vs_comparators   (five of them at the same certified epsilons)"; \
	echo "    your own sweep  $(BIN)/dprl sweep $(CONFIG) --name mine --set episodes=200000"

test: dev  ## set up, run the tests that are not marked slow (nine minutes)
	@$(PYTEST) -m "not slow" $(PYTEST_ARGS)

smoke: dev  ## the inner loop: tests of every folder that take two minutes together, on two cores
	@$(PYTEST) -m "not slow" $(addprefix tests/,$(SMOKE)) $(PYTEST_ARGS)

test-slow: dev  ## the tests marked slow, most of them on Ray (a quarter of an hour)
	@$(PYTEST) -m slow $(PYTEST_ARGS)

check: lint test test-slow  ## what CI runs: linter, formatter, type checker, all tests

lint: dev typing  ## linter, formatter and type checker, changing nothing
	@$(BIN)/ruff check $(wildcard $(SOURCES))
	@$(BIN)/ruff format --check $(wildcard $(SOURCES))
	@$(BIN)/mypy

format: dev  ## let ruff format and repair what it can
	@$(BIN)/ruff check --fix-only $(wildcard $(SOURCES))
	@$(BIN)/ruff format $(wildcard $(SOURCES))

typing:  # the tree that the type checker reads: dprl/X is X/
	@mkdir -p build/typing/dprl
	@for folder in $(FOLDERS); do ln -sfn ../../../$$folder build/typing/dprl/$$folder; done
	@for file in package/*.py; do ln -sfn ../../../$$file build/typing/dprl/; done
	@find build/typing -xtype l -delete  # of files that are gone

# `dprl.platform` is a namespace package, which the reader of docstrings does not look into.
docs: dev typing  ## the documentation site, in build/site/index.html
	@rm -rf build/api && cp -rL build/typing build/api && touch build/api/dprl/platform/__init__.py
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build 2>&1 | { grep -v '^INFO' || true; }
	@echo "    build/site/index.html"

bench: setup  ## our implementations against plain ones and a peer, as ratios
	@$(BIN)/python -m benchmarks.noise $(BENCH_ARGS)
	@$(BIN)/python -m benchmarks.tabular $(BENCH_ARGS)
	@$(BIN)/python -m benchmarks.blocks $(BENCH_ARGS)
	@$(BIN)/python -m benchmarks.games $(BENCH_ARGS)
	@$(BIN)/python -m benchmarks.ma_ldp $(BENCH_ARGS)
	@$(BIN)/python -m benchmarks.pgc $(BENCH_ARGS)
	@$(BIN)/python -m benchmarks.pgc_on_rllib $(BENCH_ARGS)
	@$(BIN)/python -m benchmarks.rlberry $(BENCH_ARGS)

# Each sweep resumes where an earlier call stopped; a cell that failed stops this before the page is written.
# A small one: DPRL_HOME=/tmp/small make halving HALVING_OUT=/tmp/small/page HALVING_ARGS='--set episodes=2000 --set seeds=6'
halving: setup  ## episodes until the regret has halved: runs the sweeps HALVING (half an hour), writes a report
	@for sweep in $(HALVING); do $(BIN)/dprl sweep $$sweep $(HALVING_ARGS); done
	@$(BIN)/dprl report $(HALVING) --title 'Episodes until the regret per episode has halved' --out $(HALVING_OUT)

held-out: setup  ## algorithms at equal noise on environments they were not tuned on (an hour), writes a report
	@$(BIN)/dprl sweep held_out $(HELD_OUT_ARGS)
	@$(BIN)/dprl report held_out --title 'Algorithms at equal noise on held-out environments'

clean:  ## remove .venv and everything built; keeps dprl_runs
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) is not on PATH: install Python 3.11, or say PYTHON=python3.12 (3.12 and 3.13 are allowed)" >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || { echo "$(PYTHON) is not Python 3.11, 3.12 or 3.13: say PYTHON=python3.11" >&2; exit 2; }
	@echo "    making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	@echo "    installing dprl with Ray, MLflow, numba and torch (about 135 packages; about a minute, longer on a slow network)"
	@start=$$SECONDS; $(call PIP_INSTALL,-e '.[all]' '$(TORCH)'); touch $@; echo "    installed in $$((SECONDS - start)) s"

$(VENV)/.installed-dev: pyproject.toml | $(BIN)/python
	@echo "    installing dprl with Ray, MLflow, numba, torch and the test tools (about 185 packages; about a minute)"
	@start=$$SECONDS; $(call PIP_INSTALL,-e '.[all$(comma)dev]' '$(TORCH)'); touch $@ $(VENV)/.installed; echo "    installed in $$((SECONDS - start)) s"
