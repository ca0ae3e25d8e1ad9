# The only thing CI and newcomers call. `make help` lists the targets.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# What is installed, in two steps: what the demo needs; what tests and development need besides.
DEMO := $(VENV)/.demo-installed
DEV := $(VENV)/.dev-installed
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt
# torch has a build for CPUs and one for each generation of GPUs, each from an index of its own; empty: pip's
# usual index, which on Linux has the build for GPUs.
TORCH_INDEX ?=
WORKERS ?= 2

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-lowest test-all lint type format bench docs docs-test map schema lock exactness browser npm web peers build wheel-test pictures clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

setup: $(DEV)  ## create .venv and install all that the targets need, once

# torch first, from its own index if one is named: nothing later replaces it. What it needs comes from the usual one.
$(DEMO): pyproject.toml constraints.txt
	@echo "Setting up $(VENV) for the demo (once)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) --no-deps $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) torch
	@$(PIP) --editable ".[demo]"
	@touch $@

$(DEV): $(DEMO)
	@echo "Adding tests, linters and peers to $(VENV) (once)"
	@$(PIP) --editable ".[train,onnx,serve,data,plot,dev]"
	@touch $@

demo: $(DEMO)  ## the whole way on text that is on every machine
	@$(BIN)/litebert demo

test: $(DEV)  ## the default tests: no network, no extra data
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS)

test-lowest:  ## the default tests with the lowest versions that pyproject.toml allows (torch as pinned), in .venv-lowest
	@test -x $(VENV)-lowest/bin/python || $(PYTHON) -m venv $(VENV)-lowest
	@$(VENV)-lowest/bin/pip install --quiet uv
	@$(VENV)-lowest/bin/pip install --quiet --constraint constraints.txt $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) --no-deps torch
	@$(VENV)-lowest/bin/uv pip install --quiet --python $(VENV)-lowest/bin/python --resolution lowest-direct \
		"$$($(VENV)-lowest/bin/pip freeze | grep '^torch==')" --editable ".[train,onnx,serve,data,plot,dev]"
	@OMP_NUM_THREADS=1 $(VENV)-lowest/bin/python -m pytest -n $(WORKERS) -W default::DeprecationWarning -W default::PendingDeprecationWarning

test-all: $(DEV) browser web peers  ## every test, with ray and a browser
	@$(PIP) --editable ".[ray]"
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) -m ""

lint: $(DEV)  ## ruff: rules and formatting
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

type: $(DEV)  ## mypy, strict
	@$(BIN)/mypy

format: $(DEV)  ## let ruff fix what it can
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: $(DEV)  ## measure against peers (needs the machine to itself)
	@for file in bench/*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done

docs: $(DEV)  ## the documentation as a site, in build/site; links checked
	@$(PIP) --editable ".[docs]"
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "build/site/index.html"

docs-test: $(DEV)  ## run the README's commands, the pages' first commands, the examples and the notebooks
	@$(PIP) --editable ".[docs]"
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pytest -m "" tests/test_docs.py tests/e2e/test_examples.py tests/e2e/test_notebooks.py

map: $(DEV)  ## write docs/files.md, the file map, from the modules' first lines
	@$(BIN)/python tools/file_map.py --write

schema: $(DEV)  ## write configs/schema/*.json, which editors check TOML files with
	@$(BIN)/python tools/schema.py

lock: $(DEV)  ## write constraints.txt and requirements.lock anew (UPGRADE=--upgrade: newest versions)
	@$(BIN)/pip install --quiet uv
	@PATH="$(BIN):$$PATH" $(BIN)/python tools/lock.py $(UPGRADE)

exactness: $(DEV)  ## measure the distance to every reference, write docs/exactness.md
	@rm -rf build/exactness
	@$(BIN)/python -m pytest -n $(WORKERS) -m "" tests/parity
	@$(BIN)/python tools/exactness.py

browser: $(DEV)  ## Chromium (Debian) and playwright, for the playground's tests
	@command -v chromium >/dev/null || (apt-get update -qq && apt-get install -y -qq chromium)
	@$(PIP) --editable ".[browser]"

npm: build/npm/.installed  ## JavaScript packages of the page and of its tests into build/npm (needs Node)

# Without their scripts, one of which would fetch libraries for GPUs from elsewhere.
build/npm/.installed: tools/npm/package.json tools/npm/package-lock.json
	@command -v npm >/dev/null || (apt-get update -qq && apt-get install -y -qq nodejs npm)
	@mkdir -p build/npm && cp tools/npm/package.json tools/npm/package-lock.json build/npm/
	@cd build/npm && npm ci --ignore-scripts --no-audit --no-fund
	@touch $@

web: npm  ## onnxruntime-web and a tokenizer beside the playground, so that it can run models (needs Node)
	@$(PYTHON) tools/web.py

# sentence-transformers' ONNX backend wants transformers 4: a folder of packages beside those of $(VENV).
peers: $(DEV)  ## what only the tests of `export hub` need, into build/peers
	@$(BIN)/pip install --quiet --no-deps --upgrade --target build/peers sentence-transformers==5.7.0 transformers==4.57.6 \
		optimum-onnx==0.1.0 optimum==2.1.0 "huggingface_hub<1" "tokenizers<0.23"

build: $(DEV)  ## build the wheel into dist/
	@$(PIP) build setuptools
	@rm -rf build/lib build/bdist.* dist/*.whl  # what is left of an older build would be packed too
	@$(BIN)/python -m build --wheel --no-isolation

wheel-test: $(DEV)  ## the wheel in an environment of its own: demo, fill-mask, serve
	@$(PIP) build setuptools
	@$(BIN)/python -m pytest -m "" tests/e2e/test_wheel.py

pictures: $(DEV)  ## the README's pictures; runs the demo if there is none
	@$(BIN)/litebert demo > /dev/null
	@$(BIN)/python tools/pictures.py pipeline
	@$(BIN)/python tools/pictures.py demo demo

clean:  ## remove everything that make created
	rm -rf $(VENV) $(VENV)-lowest build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis demo
