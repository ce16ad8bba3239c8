# Onefold: `make demo` and `make test` are all that a fresh machine needs.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
JARS := .jars/spark/.ready
KAFKA := .jars/kafka/.ready
SERVERS := .jars/s3/.ready .jars/postgres/.ready
REST := .jars/rest/.ready
REGISTRY := .jars/registry/.ready
CLASSES := .jars/spark/classes.jsa
# Where PYTHONDONTWRITEBYTECODE is set, each of some hundred processes would compile our modules again.
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(BIN)/pytest
# One process more than cores, because many tests wait for a server; each process has its own files, the quick files last.
SHARED := --numprocesses $$(($$(getconf _NPROCESSORS_ONLN) + 1)) --dist loadfile --no-loadscope-reorder --durations 40

.PHONY: help
help: ## This list
	@grep -hE '^[a-z][a-z-]*:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

.PHONY: setup
setup: $(READY) $(JARS) ## Virtual environment from the hashed lock, and the jars

$(READY): requirements.lock pyproject.toml scripts/check-machine
	@scripts/check-machine
	@echo "[1/3] virtual environment in $(VENV)"
	@"$$(scripts/check-machine --python)" -m venv $(VENV)
	@echo "[2/3] packages from requirements.lock, each against its hash (some minutes the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --progress-bar on --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --no-index -e .
	@touch $@

$(JARS): $(READY) src/onefold/spark/jars.lock
	@echo "[3/3] jars for Spark"
	@scripts/check-machine
	@$(BIN)/python -m onefold.spark.jars spark
	@touch $@

$(KAFKA): $(READY) src/onefold/spark/jars.lock
	@echo "jars for the Kafka broker that the tests start"
	@$(BIN)/python -m onefold.spark.jars kafka
	@touch $@

$(REST): $(READY) src/onefold/spark/jars.lock
	@echo "jars for the catalog server that the tests start"
	@$(BIN)/python -m onefold.spark.jars rest
	@touch $@

$(REGISTRY): $(READY) src/onefold/spark/jars.lock
	@echo "the schema registry that the tests start (142 MB)"
	@$(BIN)/python -m onefold.spark.jars registry
	@touch $@

$(SERVERS): $(READY) src/onefold/spark/jars.lock
	@echo "jars for a lake in a bucket and a catalog on Postgres"
	@$(BIN)/python -m onefold.spark.jars $(notdir $(@D))
	@touch $@

$(CLASSES): $(JARS)
	@echo "an archive of Spark's classes, with which every JVM starts faster (a minute)"
	@rm -f $@; scratch=$$(mktemp -d); trap 'rm -rf $$scratch' EXIT; made=$$scratch/classes.jsa; \
	    if ! ONEFOLD_LAKE=$$scratch/lake SPARK_SUBMIT_OPTS="-XX:ArchiveClassesAtExit=$$made -Xlog:cds=off -Xlog:cds+dynamic=off" \
	        $(BIN)/onefold run accounts --export sample/exports/kcat/1-first 2>&1 | cat >$$scratch/said || ! test -f $$made; \
	    then cat $$scratch/said >&2; exit 1; fi; mv $$made $@  # the pipe ends after the JVM, too

.PHONY: classes
classes: $(CLASSES) ## Once: every later command starts some seconds faster (190 MB)

.PHONY: demo
demo: setup $(KAFKA) ## The whole pipeline on the shipped sample and on two live topics, to the report
	@$(BIN)/onefold demo

.PHONY: airflow-demo
airflow-demo: setup ## The same datasets as DAGs in a real Airflow; Ctrl-C stops it
	@$(BIN)/python -m onefold.orchestration.demo

.PHONY: stack
stack: setup $(KAFKA) $(SERVERS) ## The compose file's services without containers, and the sample through all of them (PORTS="8080=18080 …")
	@$(BIN)/python -m deploy.stack up $(addprefix --port ,$(PORTS))

.PHONY: stack-down
stack-down: setup ## Ends the stack and removes its folder; KEEP=1 keeps the data for the next `make stack`
	@$(BIN)/python -m deploy.stack down $(if $(KEEP),--keep)

.PHONY: s3-server
s3-server: $(READY)
	@$(BIN)/python -m deploy.stack.s3

.PHONY: test
test: servers ## Everything that CI runs
	@$(PYTEST) $(SHARED)

.PHONY: servers
servers: setup $(KAFKA) $(SERVERS) $(REST) $(REGISTRY) $(CLASSES) s3-server

.PHONY: test-quick
test-quick: setup ## Unit tests, without a JVM
	@$(PYTEST) tests/unit --numprocesses 2 --dist worksteal

.PHONY: test-for
test-for: servers ## The tests of a package: make test-for PACKAGE=upsert (several: PACKAGE="dedup upsert")
	@files=$$($(BIN)/python -m tests.support.packages $(PACKAGE)); $(PYTEST) $(SHARED) $$files

# More drawn histories and batches, every fault point, and the tests marked nightly. Each piece should take at most 80 minutes.
NIGHT := ONEFOLD_TEST_HISTORIES=$${ONEFOLD_TEST_HISTORIES:-16} ONEFOLD_TEST_BATCHES=$${ONEFOLD_TEST_BATCHES:-20} ONEFOLD_TEST_POINTS=all \
    ONEFOLD_TEST_PLANS=checked ONEFOLD_TEST_CASES=$${ONEFOLD_TEST_CASES:-2}
PIECES := laws histories process integration dags faults
DRAWN := test_L1_whatever_is_drawn
PIECE ?= $(PIECES)

.PHONY: test-nightly
test-nightly: $(addprefix night-,$(PIECE)) ## The tests that take too long for `make test`, in pieces: PIECE=laws, histories, process, integration, dags or faults

.PHONY: night-laws night-histories night-process night-integration night-dags night-faults
night-laws: servers
	@$(NIGHT) $(PYTEST) -m "" $(SHARED) -k "not $(DRAWN)" tests/property tests/spark

night-histories: servers
	@$(NIGHT) $(PYTEST) -m "" $(SHARED) --dist load -k $(DRAWN) tests/spark/test_histories.py

night-process night-integration night-dags: night-%: servers
	@$(NIGHT) $(PYTEST) -m "" $(SHARED) tests/$*

night-faults: servers
	@$(BIN)/python -m tests.support.planted

.PHONY: lint
lint: setup ## Style, import rules and types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports
	@$(BIN)/mypy

.PHONY: audit
audit: setup ## Known vulnerabilities of the packages in requirements.lock: fails if one is not in scripts/audit-accepted.txt (AUDIT="-s osv": data of OSV)
	@$(BIN)/python scripts/audit requirements.lock scripts/audit-accepted.txt $(AUDIT)

.PHONY: bench
bench: bench-small bench-parsing bench-landing bench-segments bench-decoding bench-dedup bench-merge ## All benchmarks but bench-scale, hours on two cores

.PHONY: bench-dedup
bench-dedup: setup ## Dedup side by side with a plain Spark job and DuckDB
	@$(BIN)/python -m benchmarks.dedup

.PHONY: bench-decoding
bench-decoding: setup ## Decoding on one core, by format and layout, next to the bare libraries
	@$(BIN)/python -m benchmarks.decoding

.PHONY: bench-landing
bench-landing: setup $(KAFKA) ## Landing a live topic side by side with plain Python consumers
	@$(BIN)/python -m benchmarks.landing

.PHONY: bench-segments
bench-segments: setup ## Reading log segments side by side with kafka-python's own iteration
	@$(BIN)/python -m benchmarks.segments

.PHONY: bench-merge
bench-merge: setup ## Upserting a batch into a large table side by side with a copy-on-write MERGE and Delta Lake's
	@$(BIN)/python -m benchmarks.merge

.PHONY: bench-messages
bench-messages: setup ## How the ledger of messages grows, in rows and bytes for each million messages
	@$(BIN)/python -m benchmarks.messages

.PHONY: bench-scale
bench-scale: setup ## A hundred million records through all steps in a heap of 8 GB: hours
	@$(BIN)/python -m benchmarks.scale

.PHONY: bench-small
bench-small: setup ## A small batch from command to report, with the share of each step, side by side with a bare Spark job
	@$(BIN)/python -m benchmarks.small_batch

.PHONY: bench-parsing
bench-parsing: setup ## Reading each file of dags/ with 200 dataset files
	@$(BIN)/python -m benchmarks.parsing

.PHONY: record
record: setup $(KAFKA) ## Record the sample stream again from a real broker
	@$(BIN)/python -m sample.record

# The packages that deploy/Dockerfile installs, in the same versions.
RUNS_ONLY := uv pip compile --quiet --universal --generate-hashes --no-annotate --no-emit-index-url --no-header \
    --constraint requirements.lock --python-version 3.11

.PHONY: lock
lock: ## Resolve requirements.lock again, and from it the locks of the image (needs uv)
	uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-header \
	    --extra airflow --extra msk --extra dev --python-version 3.11 pyproject.toml -o requirements.lock
	$(RUNS_ONLY) --extra airflow --extra msk pyproject.toml -o requirements-runtime.lock
	sed -n '/^requires = /s/.*"\(.*\)".*/\1/p' pyproject.toml | $(RUNS_ONLY) - -o deploy/build.lock

.PHONY: clean
clean: ## Remove the files of the demos; the environment and the jars stay
	rm -rf .demo .airflow .lake .onefold .pytest_cache .mypy_cache .ruff_cache .hypothesis
