# Two commands on a fresh machine (python3 with venv, Node 20, make): `make demo` and `make test`.
# Each sets up what it needs by itself, in .venv and labextension/node_modules.

PYTHON ?= python3
VENV   := .venv
BIN    := $(abspath $(VENV)/bin)
export PATH := $(BIN):$(PATH):/usr/sbin:/sbin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# An editable install writes it through the link that `develop` has made, and the next one would find it twice.
STRAY := nbcheckpoint/labextension/install.json

# Tests that talk to kernels wait a third of their time.
WORKERS ?= $(shell expr $$(nproc) + 1)

.PHONY: help demo lab test test-fast torch lint types unit ts browser notebooks torture bench machine docs docs-serve format clean

help:
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

$(VENV)/pip.stamp:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	touch $@

$(VENV)/run.stamp: $(VENV)/pip.stamp pyproject.toml labextension/package-lock.json
	@echo "Setting up (about two minutes the first time) ..."
	@rm -f $(STRAY)
	$(BIN)/pip install --quiet --editable ".[run]"
	touch $@

$(VENV)/dev.stamp: $(VENV)/pip.stamp pyproject.toml labextension/package-lock.json
	@rm -f $(STRAY)
	$(BIN)/pip install --quiet --editable ".[dev]"
	$(BIN)/jupyter-builder develop . --overwrite
	touch $@ $(VENV)/run.stamp

$(VENV)/bench.stamp: $(VENV)/dev.stamp
	@rm -f $(STRAY)
	$(BIN)/pip install --quiet --editable ".[dev,bench]"
	touch $@

# Kishu hangs under newer ones of these. Where it cannot be had, its row says so, and the others are measured.
$(VENV)/kishu.stamp: $(VENV)/bench.stamp
	-$(PYTHON) -m venv $(VENV)/kishu && $(VENV)/kishu/bin/pip install --quiet kishu "ipykernel<7" "ipython<9" numpy pandas
	touch $@

demo: $(VENV)/run.stamp ## kill a notebook's kernel half-way, run it again, see that nothing was lost
	@$(BIN)/nbcheckpoint demo

lab: $(VENV)/dev.stamp ## open JupyterLab on the tutorial notebook, with the sidebar
	$(BIN)/jupyter lab $(if $(filter 0,$(shell id -u)),--allow-root) notebooks/01_quickstart.ipynb

test: $(VENV)/dev.stamp machine torch lint types ts unit notebooks browser ## everything
	@echo "All of it passed."

test-fast: $(VENV)/dev.stamp lint types ## what takes seconds
	$(BIN)/python -m pytest -q -m "not slow and not browser"

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(VENV)/dev.stamp
	$(BIN)/mypy

unit: $(VENV)/dev.stamp
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal -m "not browser"

notebooks: $(VENV)/dev.stamp
	$(BIN)/python -m pytest -q tests/notebooks/run_nbval.py

ts: $(VENV)/dev.stamp
	cd labextension && npm run lint && npm run typecheck && npm test

browser: $(VENV)/dev.stamp machine
	$(BIN)/python -m pytest -q -m browser tests/browser

# What the tests need besides Python and Node: a browser, and tools that make disks and system calls fail.
machine:
	@export PATH="$$PATH:/usr/sbin:/sbin"; missing=""; \
	for need in chromium:chromium strace:strace mkfs.ext4:e2fsprogs losetup:mount; do \
	  command -v $${need%%:*} >/dev/null || missing="$$missing $${need##*:}"; done; \
	[ -z "$$missing" ] || if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $$missing >/dev/null; \
	else echo "Some tests need:$$missing"; fi

# Only a build for the processor that pip has at hand (`find-links`): what an index gives brings gigabytes for graphics cards.
torch: $(VENV)/dev.stamp
	@$(BIN)/python -c "import torch" 2>/dev/null || \
	  { $(BIN)/pip install --quiet --no-index --no-deps torch 2>/dev/null && \
	    $(BIN)/pip install --quiet filelock fsspec jinja2 networkx "setuptools>=77" sympy typing-extensions; } || \
	  echo "No build of torch is at hand: its tests are skipped."

torture: $(VENV)/dev.stamp ## the store's faults: kills, power cuts, bit flips, full disks (FULL=1 for the full counts)
	$(BIN)/python benchmarks/torture.py $(if $(FULL),--full)

bench: $(VENV)/kishu.stamp ## the store against its peers and what automatic mode costs, as ratios within one run
	$(BIN)/python benchmarks/store.py
	$(BIN)/python benchmarks/overhead.py --kishu $(abspath $(VENV)/kishu/bin/python)
	$(BIN)/python benchmarks/flows.py

docs: $(VENV)/dev.stamp ## build the documentation into build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

docs-serve: $(VENV)/dev.stamp ## the same, shown on this machine while it is written
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve --strict

format: $(VENV)/dev.stamp ## make the linters happy
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	cd labextension && npm run lint:fix

clean: ## remove everything that was built
	rm -rf $(VENV) labextension/node_modules labextension/lib nbcheckpoint/labextension nbcheckpoint/_version.py dist build
