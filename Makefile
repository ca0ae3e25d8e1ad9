# The only thing CI and newcomers call. `make help` lists the targets.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt
WORKERS ?= 2

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all lint type format bench docs-test map exactness browser build wheel-test pictures clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

setup: $(STAMP)  ## create .venv and install everything once

# torch first and from its pin: another spelling may pull gigabytes of GPU packages.
$(STAMP): pyproject.toml constraints.txt
	@echo "Setting up $(VENV) (once)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) "$$(grep -E '^torch==' constraints.txt)"
	@$(PIP) --editable ".[train,onnx,serve,data,plot,dev]"
	@touch $(STAMP)

demo: $(STAMP)  ## the whole way on text that is on every machine
	@$(BIN)/litebert demo

test: $(STAMP)  ## the default tests: no network, no extra data
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS)

test-all: $(STAMP) browser  ## every test, with ray and a browser
	@$(PIP) --editable ".[ray]"
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) -m ""

lint: $(STAMP)  ## ruff: rules and formatting
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

type: $(STAMP)  ## mypy, strict
	@$(BIN)/mypy

format: $(STAMP)  ## let ruff fix what it can
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: $(STAMP)  ## measure against peers (needs the machine to itself)
	@for file in bench/*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done

docs-test: $(STAMP)  ## run the README's commands, the pages' first commands and the examples
	@$(BIN)/python -m pytest -m "" tests/test_docs.py tests/e2e/test_examples.py

map: $(STAMP)  ## write docs/files.md, the file map, from the modules' first lines
	@$(BIN)/python tools/file_map.py --write

exactness: $(STAMP)  ## measure the distance to every reference, write docs/exactness.md
	@rm -rf build/exactness
	@$(BIN)/python -m pytest -n $(WORKERS) -m "" tests/parity
	@$(BIN)/python tools/exactness.py

browser: $(STAMP)  ## Chromium (Debian) and playwright, for the playground's tests
	@command -v chromium >/dev/null || (apt-get update -qq && apt-get install -y -qq chromium)
	@$(PIP) --editable ".[browser]"

build: $(STAMP)  ## build the wheel into dist/
	@$(PIP) build setuptools
	@rm -rf build/lib build/bdist.* dist/*.whl  # what is left of an older build would be packed too
	@$(BIN)/python -m build --wheel --no-isolation

wheel-test: $(STAMP)  ## the wheel in an environment of its own: demo, fill-mask, serve
	@$(PIP) build setuptools
	@$(BIN)/python -m pytest -m "" tests/e2e/test_wheel.py

pictures: $(STAMP)  ## the README's pictures; runs the demo if there is none
	@$(BIN)/litebert demo > /dev/null
	@$(BIN)/python tools/pictures.py pipeline
	@$(BIN)/python tools/pictures.py demo demo

clean:  ## remove everything that make created
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis demo
