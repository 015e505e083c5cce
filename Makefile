# `make demo` shows the library, `make check` is for every change, `make changed` for what you are working on, `make test` runs
# everything; `make fuzz` and `make bench` take long. `make docs` builds the pages of docs/ into site/, which needs no network.
# Each creates .venv and installs what it needs, once.
# `make browser` installs Chromium on the system; without it, `make test` leaves out the tests that open a page.
# CONTRIBUTING.md says how to run less, and how long each part takes.
PYTHON ?= python3
BIN := .venv/bin
CASES ?= 100000
SEED ?= $(shell od -An -N4 -tu4 /dev/urandom)

.PHONY: demo docs lint check changed test fuzz bench browser
.DELETE_ON_ERROR:

demo: .venv/installed-demo
	$(BIN)/windowgrad demo

docs: .venv/installed-docs
	$(BIN)/python -m sphinx -q -W --keep-going -j auto -d build/doctrees docs site
	@echo "==> site/index.html"

lint: .venv/installed-test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Style, types, contracts, specification, rules, errors and kernels, with fewer random examples: under three minutes on two cores.
check: lint
	HYPOTHESIS_PROFILE=dev $(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not slow and not processes" tests/spec tests/semantics tests/errors tests/kernels

# The tests of the files that differ from a commit: SINCE=main for a branch, by default what is not committed yet.
SINCE ?= HEAD

changed: .venv/installed-test
	@tests=$$($(BIN)/python tests/support/changed.py $(SINCE)); test -z "$$tests" || HYPOTHESIS_PROFILE=dev $(BIN)/python -m pytest -q -n 2 $$tests

test: lint
	$(BIN)/python -m pytest -n 2 --dist loadfile

# Random calls: every operator in guarded memory, every public function with arguments of all kinds, ONNX models with mistakes.
# SEED= and CASES= choose.
fuzz: .venv/installed-test
	$(BIN)/python tests/fuzz.py memory api models --cases $(CASES) --seed $(SEED)

bench: .venv/installed-test
	$(BIN)/python benchmarks/pooling.py --json docs/speed-pooling.json
	$(BIN)/python benchmarks/convolution.py --json docs/speed-convolution.json
	$(BIN)/python benchmarks/speed_pages.py

CHROMIUM := chromium chromium-driver
APT := $(if $(filter 0,$(shell id -u)),,sudo )apt-get

browser:
	@$(PYTHON) tests/support/browser.py || { \
	    command -v apt-get > /dev/null || { echo "install Chromium or Chrome and its chromedriver, so that both are on the PATH"; exit 1; }; \
	    echo "==> installing $(CHROMIUM)"; \
	    $(APT) update && $(APT) install -y --no-install-recommends $(CHROMIUM) && $(PYTHON) tests/support/browser.py; }

.venv/made:
	@echo "==> making .venv with $$($(PYTHON) --version)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "windowgrad needs Python 3.11 or newer; say which with make PYTHON=..."; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --upgrade 'pip>=25.1'
	@touch $@

.venv/installed-demo: .venv/made pyproject.toml
	@echo "==> installing windowgrad and the demo's libraries"
	$(BIN)/python -m pip install -e '.[demo]'
	@touch $@

# The reference is made from the docstrings of what is installed, the layers for PyTorch included.
.venv/installed-docs: .venv/made pyproject.toml
	@echo "==> installing PyTorch, then windowgrad and Sphinx (a few minutes the first time)"
	$(BIN)/python -m pip install torch==2.13.0
	$(BIN)/python -m pip install -e '.[torch,dask,onnx]' --group docs
	@touch $@

# PyTorch comes first and by its exact version, which is the CPU build; every other spelling brings gigabytes for GPUs.
.venv/installed-test: .venv/made pyproject.toml
	@echo "==> installing PyTorch, then windowgrad with every extra and the test tools (a few minutes the first time)"
	$(BIN)/python -m pip install torch==2.13.0
	$(BIN)/python -m pip install -e '.[torch,jax,dask,onnx,conform,demo]' --group test
	@touch $@
