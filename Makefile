# Everything a person does with this checkout. On a fresh machine: git, make and Python >= 3.11 suffice.
#   make demo ARGS="--seed 7"     PYTHON=/path/to/python3 chooses another Python
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
SHELL := /bin/bash

PYTHON ?=
export PYTHON
BIN := .venv/bin
ARGS ?=
ROOMS := api cache tuner operator agent lab cli
# Four workers on two cores: half of the tests start real processes and wait for them.
WORKERS ?= 4

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: install install-dev
install: ## Create .venv with everything that the demo and the commands need
	@requirements/install.sh run
install-dev: ## The same with the tools of development
	@requirements/install.sh dev

.PHONY: demo
demo: install ## Watch the closed loop find a better configuration (ARGS="--help" lists the options)
	@$(BIN)/kvtune demo $(ARGS)

.PHONY: demo-kubernetes down
demo-kubernetes: install-dev ## The same on a real Kubernetes control plane, to the first promotion (20 minutes at most)
	@$(BIN)/python -m tools.demo_kubernetes up $(ARGS)
down: install-dev ## End the cluster of demo-kubernetes
	@$(BIN)/python -m tools.demo_kubernetes down

.PHONY: controlplane
controlplane: install-dev ## Build etcd, the API server, kwok and Prometheus once into your cache (up to 35 minutes)
	@$(BIN)/python -m tools.controlplane build

.PHONY: test
test: install-dev ## Run every test (ARGS="tests/tuner -k guard" runs some; KVTUNE_NO_CLUSTER=1 needs no control plane)
	@# What cannot be built fails the tests that need it, with the reason, and no other test.
	@[ "$(KVTUNE_NO_CLUSTER)" = 1 ] || $(BIN)/python -m tools.controlplane build || true
	$(BIN)/python -m pytest -q -rs -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

.PHONY: kernels gpu-check
kernels: install-dev ## Add torch and Triton to .venv (5 GB) and test the kernels: on a GPU if there is one, else interpreted
	@requirements/install.sh gpu
	$(BIN)/python -m pytest -q -rs tests/agent/kernels $(ARGS)
gpu-check: ## Where a GPU is: test the kernels compiled and measure their bandwidth; elsewhere say that it did not run
	@if ! command -v nvidia-smi >/dev/null; then \
	  echo "kvtune: the GPU check did not run: no GPU is here (nvidia-smi is not)"; \
	else \
	  requirements/install.sh dev && requirements/install.sh gpu && \
	  $(BIN)/python -m tests.benchmarks.kernels_gpu $(ARGS); \
	fi

.PHONY: check
check: install-dev ## Check format, lint, types, imports, layout and generated files
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy $(ROOMS) tools
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/test_layout.py
	$(BIN)/python -m tools.docgen --check

.PHONY: gen
gen: install-dev ## Rebuild every generated file
	$(BIN)/python -m tools.docgen

.PHONY: format
format: install-dev ## Format the code and repair what the linter can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: bench
bench: install-dev ## Measure the figures of docs/benchmarks.md
	$(BIN)/python -m tests.benchmarks $(ARGS)

.PHONY: bench-kubernetes
bench-kubernetes: install-dev ## Measure the operator at scale: 50 x 20 and 1 x 1,000 agents (about 15 minutes)
	@$(BIN)/python -m tools.controlplane build
	$(BIN)/python -m tests.benchmarks kubernetes soak $(ARGS)

# The pins for every Python that the project supports, with hashes, naming no host.
LOCK := env -u PIP_FIND_LINKS $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-header --group build
.PHONY: lock
lock: install-dev ## Renew the pins in requirements/ (ARGS="--upgrade" takes the newest versions)
	$(LOCK) $(ARGS) --extra all --output-file requirements/run.txt pyproject.toml
	$(LOCK) $(ARGS) --extra all --extra dev --constraint requirements/run.txt \
		--output-file requirements/dev.txt pyproject.toml
	$(LOCK) $(ARGS) --extra agent --constraint requirements/run.txt \
		--output-file requirements/agent.txt pyproject.toml
	$(LOCK) $(ARGS) --extra gpu --constraint requirements/dev.txt \
		--output-file requirements/gpu.txt pyproject.toml

.PHONY: clean
clean: ## Remove .venv and every cache and build output
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find $(ROOMS) tests tools -name __pycache__ -type d -prune -exec rm -rf {} +
