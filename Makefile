# Chores. `make help` prints what each of them does.
PYTHON ?= python3
VENV := .venv
CHROMIUM := $(and $(shell command -v chromedriver),$(shell command -v chromium || command -v chromium-browser || command -v google-chrome || command -v chrome))

# Each process loads a thousand files. Python keeps what it has compiled, also where the environment says otherwise: compiling
# all of it takes a process longer than everything else that it does at its start, and a test run starts a thousand processes.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run gateway-demo dashboard-demo chat-demo queue-demo read-model-demo shop-demo test postgres kafka crash crash-failover crash-moves crash-faults check format docs client-js bench bench-growth bench-peer bench-spark lock

help: ## print this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(VENV)/run.stamp ## run everything on 127.0.0.1:4000 (HOST, PORT and TOPICS_DATA move it)
	@exec $(VENV)/bin/python manage.py run

gateway-demo: $(VENV)/run.stamp ## run two servers, and a gateway on 127.0.0.1:4100 that shows them as one (PORT, TOPICS_DATA)
	@exec $(VENV)/bin/python -m examples.gateway.demo

dashboard-demo: $(VENV)/shop.stamp ## run a page on 127.0.0.1:4300 that shows sales as they happen (PORT, TOPICS_DATA, TOPICS_URL: a server that runs)
	@exec $(VENV)/bin/python -m examples.dashboard

chat-demo: $(VENV)/shop.stamp ## run a chat room on 127.0.0.1:4320 (PORT, TOPICS_DATA, TOPICS_URL)
	@exec $(VENV)/bin/python -m examples.chat

queue-demo: $(VENV)/shop.stamp ## let two workers share the jobs of a queue (PORT, TOPICS_DATA, TOPICS_URL)
	@exec $(VENV)/bin/python -m examples.work_queue

read-model-demo: $(VENV)/shop.stamp ## keep a table of balances that is made of records, each once (PORT, TOPICS_DATA, TOPICS_URL)
	@exec $(VENV)/bin/python -m examples.read_model

shop-demo: $(VENV)/shop.stamp ## run a shop on 127.0.0.1:4200, whose orders and events are one commit (PORT, TOPICS_DATA)
	@exec $(VENV)/bin/python -m examples.shop.demo

test: $(VENV)/dev.stamp ## run the tests on every core, on servers of their own (TESTS=fast: a part, in minutes; TESTS=tests/api picks some)
	@$(if $(CHROMIUM),,echo "No Chromium with its driver here: pages are not tried (apt-get install chromium chromium-driver).")
	$(VENV)/bin/python .ci/tests.py $(if $(findstring .py,$(TESTS)),,$(SIDE_BY_SIDE)) $(MARKED) $(filter-out fast,$(TESTS))
# Processes with servers of their own, as many as tests/conftest.py says. Where files are named, one process is up sooner.
SIDE_BY_SIDE := --numprocesses auto --maxprocesses 8 --dist loadscope --no-loadscope-reorder --durations 40 --durations-min 10
MARKED = $(if $(filter fast,$(TESTS)),-m "not deep",$(if $(CHROMIUM),-m "not kafka",-m "not browser and not kafka"))

postgres: $(VENV)/dev.stamp ## run the contract of the log and the routers on every other PostgreSQL that is here
	$(VENV)/bin/python .ci/postgres.py

kafka: $(VENV)/dev.stamp ## run topics on a real Kafka, whose jars it gets once (needs Java 17 and Maven; KAFKA_JARS=a folder for them)
	$(VENV)/bin/python .ci/kafka.py

crash: crash-failover crash-moves crash-faults ## all three, in some minutes

crash-faults: $(VENV)/dev.stamp ## kill, freeze and fill a deployment under load (FAULTS=60; SEED=… replays a run)
	$(VENV)/bin/python -m tests.crash.harness $(if $(FAULTS),--faults $(FAULTS)) $(if $(SEED),--seed $(SEED)) $(if $(WITHIN),--within $(WITHIN))

crash-failover: $(VENV)/dev.stamp ## two gateways, a spare and a witness under faults, in about a minute (SEED=… replays the order)
	$(VENV)/bin/python -m tests.crash.harness.failover $(if $(SEED),--seed $(SEED))

crash-moves: $(VENV)/dev.stamp ## topics move between two servers under faults, in about two minutes (SEED=… replays the order)
	$(VENV)/bin/python -m tests.crash.harness.moves $(if $(SEED),--seed $(SEED))

check: $(VENV)/dev.stamp ## lint, types, layers, scripts, names of classes, plain English, migrations against models, and known vulnerabilities; changes nothing
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/python -m mypy
	$(VENV)/bin/python .ci/layers.py
	$(VENV)/bin/python .ci/scripts.py
	$(VENV)/bin/python .ci/names.py
	$(VENV)/bin/python .ci/words.py
	$(VENV)/bin/python manage.py makemigrations --check --dry-run
	$(VENV)/bin/python .ci/audit.py

format: $(VENV)/dev.stamp ## format, and mend what lint can mend
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

docs: $(VENV)/dev.stamp ## make the site of docs/ in .site, with docs/settings.md and the tables that are made from the code, and look after its links
	$(VENV)/bin/python .ci/settings.py
	$(VENV)/bin/python .ci/wire.py
	$(VENV)/bin/python .ci/options.py
	$(VENV)/bin/python .ci/commands.py
	$(VENV)/bin/python .ci/codes.py
	$(VENV)/bin/python .ci/metrics.py
	$(VENV)/bin/python .ci/alerts.py
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/python -m mkdocs build -q

client-js: ## make the tarball of the JavaScript client in dist/
	@mkdir -p $(DIST)
	cd clients/js && npm pack --silent --pack-destination $(abspath $(DIST))
DIST := dist

bench: $(VENV)/dev.stamp ## measure a real server and print each figure beside the raw limit
	$(VENV)/bin/python -m bench

bench-growth: $(VENV)/dev.stamp ## count what each operation reads at 1 %, 10 % and all of a large store (RECORDS=25000000 BYTES=90 or 450)
	$(VENV)/bin/python -m bench.growth --copies --records $(or $(RECORDS),25000000) --bytes $(or $(BYTES),90)

bench-peer: $(VENV)/dev.stamp ## measure an instance beside another server of the same wire (PEER=http://127.0.0.1:4100)
	PEER=$(PEER) $(VENV)/bin/python -m bench.peer

bench-spark: $(VENV)/dev.stamp ## measure the pipeline on Spark (RECORDS=1000000 of each size)
	RECORDS=$(or $(RECORDS),1000000) $(VENV)/bin/python -m bench.spark keep

lock: $(VENV)/dev.stamp ## resolve pyproject.toml anew into the three lock files, and hold them against every platform
	$(VENV)/bin/uv pip compile -q --upgrade $(LOCK) pyproject.toml -o requirements.lock
	$(VENV)/bin/uv pip compile -q --upgrade $(LOCK) --extra embedded -c requirements.lock pyproject.toml -o requirements-embedded.lock
	$(VENV)/bin/uv pip compile -q --upgrade $(LOCK) --all-extras -c requirements-embedded.lock pyproject.toml -o requirements-dev.lock
	$(VENV)/bin/python .ci/platforms.py
LOCK := --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header

# The environment: made once, and brought up to date only when a lock file changed. A stamp is written last, so a
# half-made one is finished at the next call.
$(VENV)/venv.stamp:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "topics: Python 3.11 or later is needed; this is " + sys.version.split()[0] + ". Set PYTHON=…")'
	@$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/run.stamp: requirements-embedded.lock | $(VENV)/venv.stamp
	@echo "Installing into $(VENV) …"
	@$(VENV)/bin/python -m pip install -q --disable-pip-version-check --use-pep517 -r requirements-embedded.lock
	@touch $@

$(VENV)/shop.stamp: examples/shop/requirements.txt | $(VENV)/run.stamp
	@echo "Installing what the shop needs into $(VENV) …"
	@$(VENV)/bin/python -m pip install -q --disable-pip-version-check -r $<
	@touch $@

$(VENV)/dev.stamp: requirements-dev.lock | $(VENV)/run.stamp
	@echo "Installing the tools for tests and checks into $(VENV) …"
	@$(VENV)/bin/python -m pip install -q --disable-pip-version-check --use-pep517 -r requirements-dev.lock
	@touch $@
