# Everything starts here: `make help` lists the targets.
.DEFAULT_GOAL := help
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.PHONY: help setup demo study extract dbt correlate report sql verify test test-slow test-scale rehearse lint bench docs docs-serve dbt-docs release clean

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TOKENMART := $(BIN)/tokenmart
RUN := $(VENV)/.ready-to-run
READY := $(VENV)/.ready
LOG := $(VENV)/setup.log

extract: PROBLEM ?= no4k
correlate report: PROBLEM ?= demo
METRIC_KEY ?= score
PORT := 8000
QUERY ?=

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "Variables: PROBLEM=no4k|demo|file.yml  SUBMISSION=file.json  OUT=file.json  QUERY='select …'"

setup: $(READY)  ## create .venv with everything, at the tested versions

$(RUN): WITH := extract,report
$(READY): WITH := dev,docs
$(READY): $(RUN)
$(RUN) $(READY): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "error: $(PYTHON) is older than 3.10; run make PYTHON=python3.12 setup" >&2; exit 1; }
	@echo "installing .[$(WITH)] in $(VENV) (minutes the first time; log in $(LOG))"
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	@uv pip install --python $(BIN)/python -c requirements.lock -e '.[$(WITH)]' > $(LOG) 2>&1 || \
	  $(BIN)/python -m pip install -c requirements.lock -e '.[$(WITH)]' > $(LOG) 2>&1 || \
	  { grep -E '^ *ERROR:' $(LOG) | tail -n 3 || true; echo "error: pip failed; see $(LOG), correct the cause (network? disk?) and run make setup" >&2; exit 1; }
	@touch $@

demo: $(RUN)  ## eight small models and two documents, to ranked metrics and a report: minutes on two cores
	$(TOKENMART) data fetch --problem demo
	$(TOKENMART) extract --problem demo
	$(TOKENMART) dbt --quiet run
	$(TOKENMART) correlate --problem demo
	$(TOKENMART) report --problem demo
	@$(BIN)/python scripts/demo_answer.py

study: $(READY)  ## recompute every figure of studies/ from the committed tables (a minute)
	$(BIN)/python studies/minilong/recompute.py > /dev/null
	$(BIN)/python studies/early_decisions/recompute.py > /dev/null
	$(BIN)/python studies/models90/recompute.py > /dev/null
	$(BIN)/python studies/pages.py
	$(BIN)/python -m pytest -q tests/test_studies.py

extract: $(RUN)  ## token statistics of the locked problem (GPU; elsewhere: the plan and its cost)
	$(TOKENMART) extract --problem $(PROBLEM)

dbt: $(RUN)  ## build and test every metric from the token statistics
	$(TOKENMART) dbt build

correlate: $(RUN)  ## rank metrics by correlation with the target
	$(TOKENMART) correlate --problem $(PROBLEM)

report: $(RUN)  ## write the HTML report
	$(TOKENMART) report --problem $(PROBLEM)

sql: $(RUN)  ## run QUERY='select …' on tokens and metrics, read-only
	@$(TOKENMART) sql $${QUERY:+"$$QUERY"}
sql: export QUERY := $(value QUERY)

verify: $(RUN)  ## score SUBMISSION=file.json against no4k (OUT= saves the result)
	@test -n "$(SUBMISSION)" || { echo "error: give make verify SUBMISSION=file.json" >&2; exit 2; }
	$(BIN)/python scripts/verify_locked_no4k.py --submission "$(SUBMISSION)" \
	  --metric-key "$(METRIC_KEY)" $(if $(OUT),--out "$(OUT)")

PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist loadfile

test: $(READY)  ## run the tests, except those marked slow: see test-slow
	$(PYTEST) -m "not slow"

test-slow: $(READY)  ## run the tests marked slow: kills, whole rebuilds, long real documents
	$(PYTEST) -m slow

test-scale: $(READY)  ## run the tests of Ray, and install what they need
	$(BIN)/python -m pip install -q -c requirements.lock -e '.[dev,ray]'
	$(PYTEST) plugins/cluster/tests

rehearse: $(READY)  ## rehearse no4k from download to submission, with look-alikes of its 17 models
	$(BIN)/python -m pytest -q -m slow --durations 10 tests/rehearsal

lint: $(READY)  ## ruff, mypy, sqlfluff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	cd dbt_project && ../$(BIN)/sqlfluff lint --disable-progress-bar models tests ../plugins/*/dbt/models

bench: $(READY)  ## measure the metric library (figures in benchmarks/RESULTS.md)
	$(BIN)/python benchmarks/growth.py

SITE = NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs

docs: $(READY)  ## build the documentation site into build/site; needs no network
	$(SITE) build --strict --quiet
	@echo "open build/site/index.html"

docs-serve: $(READY)  ## serve the documentation site at http://127.0.0.1:8000 (PORT=8001 if taken) and rebuild on changes
	$(SITE) serve --dev-addr 127.0.0.1:$(PORT)

dbt-docs: $(READY)  ## dbt's own documentation in one HTML file: models, columns, formulas, lineage
	$(TOKENMART) dbt docs generate --static
	@echo "open dbt_project/target/static_index.html"

release: $(READY)  ## check version, changelog, clean tree and .ci/run; then make an annotated tag
	$(BIN)/python scripts/release.py

clean:  ## remove what can be rebuilt in seconds; extracted tokens, weights and .venv stay
	rm -rf dbt_project/target dbt_project/logs logs build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -f warehouse/tokenmart.duckdb warehouse/tokenmart.duckdb.wal warehouse/tokenmart.duckdb.built report.html report-tokens.html
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +
