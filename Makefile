VENV := .venv
PYTHON := $(VENV)/bin/python
DEV := $(VENV)/.ottla-requirements-dev.lock
SEEDS ?= 200
ORDER ?= 1

.PHONY: help check unit test sim interop chaos bench profile docs messages lock console format

# Without compiled modules each of the workers of a run rewrites the asserts of all tests again: 20 s of CPU instead of 7.
unexport PYTHONDONTWRITEBYTECODE

COMPILED := $(shell find src -name "*.pxd")

$(DEV): requirements-dev.lock pyproject.toml setup.py $(COMPILED) $(COMPILED:.pxd=.py)
	tools/install $(VENV) requirements-dev.lock

help:  ## this list
	@sed -n 's/^\([a-z]*\):.*  ## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

check: $(DEV)  ## format, lint, types, layers
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(PYTHON) tools/prose.py
	tools/console check

unit: $(DEV)  ## unit tests alone, in about a minute
	$(PYTHON) -m pytest -n 2 tests/unit

test: $(DEV)  ## everything a change needs, four at once, as most of it waits; another order of tests: make test ORDER=2
	tools/console test
	$(PYTHON) -m pytest -n 4 --randomly-seed=$(ORDER)

sim: $(DEV)  ## simulation in bulk: make sim SEEDS=200; WORLD=replicas for one kind, SEED=7 SECONDS=5 to replay one
	$(PYTHON) -m ottla.sim $(if $(SEED),--seed $(SEED),--seeds $(SEEDS)) $(if $(WORLD),--only $(WORLD)) $(if $(SECONDS),--seconds $(SECONDS))

interop: $(DEV)  ## real clients and tools, the slow ones too (Go, Node)
	OTTLA_INTEROP_ALL=1 $(PYTHON) -m pytest tests/interop tests/cli tests/docs tests/examples tests/packaging tests/spark tests/browser

chaos: $(DEV)  ## real processes, killed while they work
	$(PYTHON) -m pytest tests/chaos

bench: $(DEV)  ## side by side with Apache Kafka 4.3.1; make bench RESULTS=DIR also writes the results
	$(PYTHON) -m bench $(if $(RESULTS),--results $(RESULTS))

profile: $(DEV)  ## the functions of a node that takes small requests, by their own time
	$(PYTHON) -m bench.profile

docs: $(DEV)  ## the pages of docs/ as HTML in build/docs, with the reference made from the code
	$(PYTHON) -m sphinx -b html -W --keep-going -q -d build/docs-trees docs build/docs
	@echo "build/docs/index.html"

messages: $(DEV)  ## write wire/messages anew from Kafka's definitions: make messages JARS=DIR
	$(PYTHON) tools/messages.py $(JARS)

lock:  ## pin the versions anew (needs uv)
	uv pip compile -q pyproject.toml --no-emit-index-url --no-annotate --no-header -o requirements.lock
	uv pip compile -q pyproject.toml --extra spark --extra arrow --no-emit-index-url --no-annotate --no-header -o requirements-spark.lock
	uv pip compile -q pyproject.toml --extra security -c requirements-dev.lock --no-emit-index-url --no-annotate --no-header -o - | grep -v -x -f requirements.lock > requirements-security.lock
	uv pip compile -q pyproject.toml --extra console -c requirements-dev.lock --no-emit-index-url --no-annotate --no-header -o - | grep -v -x -f requirements.lock > requirements-console.lock
	uv pip compile -q pyproject.toml --extra dev --no-emit-index-url --no-annotate --no-header -o requirements-dev.lock

console:  ## the console's page, if something changed; ./ottla console does the same
	tools/console build

format: $(DEV)  ## format the code and mend what the linter can
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .
