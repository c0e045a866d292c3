# Each target is one script or one command.
SHELL := bash
ALL_PARTS := llm fno resnet inference report frames tracking darshan dev docs
unexport PYTHONDONTWRITEBYTECODE # tests and demo start Python some thousand times: each would compile the suite
export PATH := $(CURDIR)/.venv/bin:$(CURDIR)/build/test-packages/bin:$(PATH)
# Each core runs one test file after the other, so that a file's shared fixtures are made once.
PARALLEL := -n auto --maxprocesses 8 --dist loadfile --no-loadscope-reorder --durations 30

.PHONY: help setup demo test test-all test-contract test-nightly test-skipped test-packages test-kubernetes test-arm64 lint bench coverage docs docs-serve gpu-check clean

help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' Makefile | expand -t 17

setup: ## make .venv, and install JUBE if it is missing
	@scripts/setup.sh

demo: setup ## train, measure, table and report on this machine: 2.5 minutes on two cores with AVX-512, 4.5 without
	@scripts/demo.sh

test: lint ## set-up, lint, types and tests: 9 minutes on two cores with AVX-512, 15 without
	pytest $(PARALLEL)

test-all: lint ## every test, also the slow ones: 25 minutes on two cores with AVX-512, 50 without
	pytest $(PARALLEL) -m ''

test-nightly: test-packages lint ## as root: what takes too long for each change: the slow tests, Debian 13, Arm, Kubernetes, packaging; two hours
	@scripts/nightly.sh $(PARALLEL)

test-skipped: ## the tests that the last run skipped for a missing program: after make test-packages
	pytest $(PARALLEL) -m '' --skipped

test-packages: ## install the programs that only some tests need: Slurm, containers, a browser, compilers
	@scripts/test_packages.sh

test-kubernetes: lint ## as root: the workflow through a real Kubernetes of one node, which is built first
	@scripts/build_kubernetes.sh $(or $(KUBERNETES),build/kubernetes)
	CARAML_KUBERNETES_PROGRAMS=$(or $(KUBERNETES),build/kubernetes) pytest tests/real_kubernetes.py

test-arm64: setup ## as root: power methods, ioprof and a node's facts on aarch64, emulated where needed: 10 minutes
	scripts/test_arm64.sh

lint: ## set-up, then workflows, style, imports and types: 20 seconds on two cores with AVX-512, 40 without
	@scripts/setup.sh $(ALL_PARTS)
	@mypy & types=$$! failed=0; \
	for check in "caraml check jube/*.yaml" "ruff check" "ruff format --check" "lint-imports --no-logo" "python scripts/language.py"; do \
		$$check || failed=1; \
	done; \
	wait $$types && exit $$failed

bench: ## speed and memory, as ratios against a peer in the same run
	@scripts/setup.sh $(ALL_PARTS)
	python -m tools.bench

coverage: ## whether the stated intervals of energy hold, every case 100 times: 15 minutes
	@scripts/setup.sh $(ALL_PARTS)
	@python -m tools.bench.coverage

test-contract: ## names, keywords, flags, metrics and fields against real packages, which are downloaded: 5 minutes
	@scripts/setup.sh $(ALL_PARTS)
	CARAML_DOWNLOAD=1 pytest -s -m '' tests/contracts

docs: ## the documentation as a site in build/docs; a warning is an error
	@scripts/setup.sh docs
	sphinx-build --fail-on-warning --keep-going --quiet --fresh-env docs build/docs

docs-serve: docs ## the documentation on http://127.0.0.1:8000
	python -m http.server --bind 127.0.0.1 --directory build/docs 8000

gpu-check: setup ## train both GPT sizes on one NVIDIA GPU, 8 minutes: make gpu-check SYSTEM=H200
	@scripts/gpu_check.sh $(SYSTEM)

clean: ## remove results of the workflow, data and .venv
	rm -rf jube/*_run data .venv
