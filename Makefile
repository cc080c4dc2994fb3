# SPDX-License-Identifier: Apache-2.0
# `make demo` and `make test` prepare everything they need; `make help` lists the rest.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
ARGS   ?=
# p4runtime-shell, in an environment of its own
SHELL_VENV  ?= .venv-shell
GRPC_ADDR   ?= 127.0.0.1:9559
DEVICE_ID   ?= 1
ELECTION_ID ?= 0,1
SWITCH      ?=
FABRIC      ?= fabric.yaml
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.DEFAULT_GOAL := help
.PHONY: help env env-dev env-shell demo test test-system test-web test-shell check bench docs claims p4 shell lock clean

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /  \1\t/' | expand -t 16

$(VENV)/.runtime: requirements/runtime.lock pyproject.toml
	@$(PYTHON) tools/check_python.py
	@$(BIN)/python -m pip --version > /dev/null 2>&1 || { rm -rf $(VENV) && $(PYTHON) -m venv $(VENV); }
	@echo "installing the locked runtime into $(VENV) (once; the embedded store alone is about 500 MB)"
	@$(BIN)/python -m pip install --quiet --require-hashes -r requirements/runtime.lock
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements/dev.lock
	@$(BIN)/python -m pip install --quiet --require-hashes -r requirements/dev.lock
	@touch $@

$(SHELL_VENV)/.shell: requirements/shell.lock
	@$(PYTHON) -m venv $(SHELL_VENV)
	@$(SHELL_VENV)/bin/python -m pip install --quiet --require-hashes -r requirements/shell.lock
	@touch $@

env: $(VENV)/.runtime ## create the environment that runs the product
env-dev: $(VENV)/.dev ## the same, with test and lint tools
env-shell: $(SHELL_VENV)/.shell ## create the environment of p4runtime-shell

demo: $(VENV)/.runtime ## the main job, end to end (ARGS="--headless --out DIR --seed N")
	@$(BIN)/tempotrace demo $(ARGS)

test: $(VENV)/.dev ## lint, types, import contracts and all tests that need no root
	@$(MAKE) --no-print-directory check
	@$(BIN)/python -m pytest -n 2 -m "not web and not system" $(ARGS)

test-system: $(VENV)/.dev ## real-time backends: needs root and Debian's linuxptp, chrony, mininet; a quiet machine
	@$(BIN)/python -m pytest -m system $(ARGS)

test-web: $(VENV)/.dev ## the page in a real browser (Debian's chromium)
	@$(BIN)/python -m pytest -m web $(ARGS)

test-shell: $(VENV)/.dev $(SHELL_VENV)/.shell ## p4runtime-shell against the embedded switch
	@SHELL_VENV=$(SHELL_VENV) $(BIN)/python -m pytest -m shell tests/integration/test_p4runtime_shell.py $(ARGS)

check: $(VENV)/.dev ## ruff, mypy --strict and the import contracts
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

bench: $(VENV)/.runtime ## measure the embedded switch
	@$(BIN)/tempotrace bench switch $(ARGS)

claims: $(VENV)/.runtime ## demo, large fabric, transparent clocks, numbered scenarios on many seeds, 50 kills of ingest; rewrites tables in docs
	@$(BIN)/python tools/claims.py $(ARGS)
	@$(BIN)/python tools/claims.py --scenario large-16x8 --seeds 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20 $(ARGS)
	@$(BIN)/python tools/claims.py --scenario transparent-clock-4x4 --seeds 1,2,3 $(ARGS)
	@$(BIN)/python tools/scenario_claims.py
	@$(BIN)/python tools/ingest_kills.py

docs: $(VENV)/.dev ## regenerate the generated pages (wire format, schemas, OpenAPI)
	@$(BIN)/python tools/generate_docs.py

p4: $(VENV)/.runtime ## compile p4src with p4c (must be on the PATH) into p4src/artifacts
	@$(BIN)/tempotrace p4 build

shell: $(SHELL_VENV)/.shell $(if $(SWITCH),$(VENV)/.runtime) ## p4runtime-shell on SWITCH=NAME of FABRIC=fabric.yaml, or on GRPC_ADDR=127.0.0.1:9559 (DEVICE_ID=1 ELECTION_ID=0,1)
ifneq ($(SWITCH),)
	@$(BIN)/tempotrace deploy shell '$(SWITCH)' -f '$(FABRIC)' --environment $(SHELL_VENV) $(ARGS)
else
	@PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=python $(SHELL_VENV)/bin/python -m p4runtime_sh \
	    --grpc-addr $(GRPC_ADDR) --device-id $(DEVICE_ID) --election-id $(ELECTION_ID) $(ARGS)
endif

lock: ## recompute the lock files (needs uv)
	uv pip compile -q --universal --generate-hashes --no-header --no-emit-index-url --python-version 3.11 pyproject.toml --group build -o requirements/runtime.lock
	uv pip compile -q --universal --generate-hashes --no-header --no-emit-index-url --python-version 3.11 pyproject.toml --group build --group test --group lint -c requirements/runtime.lock -o requirements/dev.lock
	uv pip compile -q --universal --generate-hashes --no-header --no-emit-index-url --python-version 3.11 --group pyproject.toml:shell -o requirements/shell.lock

clean: ## remove the environment and caches
	rm -rf $(VENV) $(SHELL_VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
