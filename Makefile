# make quickstart and make test need Python 3.11+, git and make; everything else is installed into .venv.
SHELL := /bin/bash
PYTHON ?= python3
VENV ?= .venv
RUN ?= quickstart
WORKERS ?= 2
BIN := $(VENV)/bin
EXTRAS := offline,train,export

# These need finished runs, a file of pairs or a folder that have to be named, or train a great many models; one is a server.
LEFT_OUT := batch_sizes fallback judgements large_model local_qdrant multi_aspect refined_targets selection_signal simultaneous_starts start sweep transfer
BENCHMARKS := $(filter-out $(LEFT_OUT),$(basename $(notdir $(wildcard benchmarks/*.py))))

# One thread per worker: more only contend for the same cores.
PYTEST := OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help quickstart check test slow lint type docs format bench constraints clean

help:  ## list these targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/make \1\t\2/' | expand -t 20

quickstart: $(VENV)/.installed  ## train both agents on the bundled world; the table at the end compares them with simple rivals
	@if [ -f runs/$(RUN)/results.json ]; then \
		cat runs/$(RUN)/*.md; \
		echo; \
		echo "runs/$(RUN) is finished. To train another run: make quickstart RUN=another"; \
	elif [ -f runs/$(RUN)/config.yaml ]; then \
		$(BIN)/python train.py --resume runs/$(RUN); \
	else \
		$(BIN)/python train.py --config configs/quickstart.yaml --name $(RUN); \
	fi

# mypy, by itself, would leave all cores but one idle.
check: $(VENV)/.installed-dev  ## check style, types, documentation and tests; what must pass before a merge
	@$(MAKE) --no-print-directory lint docs
	@$(MAKE) --no-print-directory -j 2 type test

test: $(VENV)/.installed-dev  ## run the tests, but for those of make slow
	$(PYTEST) -m "not slow" tests

slow: $(VENV)/.installed-dev  ## run the tests that take long, which make check leaves out
	$(PYTEST) -m slow tests

lint: $(VENV)/.installed-dev  ## check style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/.installed-dev  ## rewrite files in the project's style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

type: $(VENV)/.installed-dev  ## check types
	$(BIN)/mypy

docs: $(VENV)/.installed-dev  ## build the documentation in site/; a broken link fails
	$(BIN)/python scripts/make_api_pages.py
	$(BIN)/zensical build --strict --clean --config-file mkdocs.yml

bench: quickstart  ## run every benchmark that needs no runs but the quickstart's (long)
	@set -e; for name in $(BENCHMARKS); do echo "== $$name"; $(BIN)/python -m benchmarks.$$name; done

constraints: $(VENV)/.installed-dev  ## pin the installed versions in constraints.txt
	@{ sed -n '/^#/p' constraints.txt; \
	   $(BIN)/pip freeze --all --exclude pip --exclude setuptools --exclude-editable | grep -v '@' | sed 's/+cpu$$//'; \
	 } > constraints.txt.new && mv constraints.txt.new constraints.txt

clean:  ## remove .venv, caches and builds; runs are kept
	rm -rf $(VENV) build dist site .cache ./*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "error: $(PYTHON) is missing or older than Python 3.11; name a newer one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 2; }
	@echo "Setting up $(VENV) (once; a few minutes)"
	@$(PYTHON) -m venv $(VENV)

# PyTorch first and by itself, so that pip takes the build that its index offers for the pinned version.
$(VENV)/.installed: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet "$$(grep '^torch==' constraints.txt)" -c constraints.txt
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[$(EXTRAS)]'
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[$(EXTRAS),dev]'
	@touch $@
