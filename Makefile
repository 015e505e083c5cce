# `make demo`, `make test`, `make fuzz`, `make bench`. Each makes .venv, installs what it needs, and re-uses it while nothing changes.
# `make browser` installs a Chromium on the system; without one, `make test` leaves out the tests that open a page.
PYTHON ?= python3
BIN := .venv/bin
CASES ?= 100000
SEED ?= $(shell od -An -N4 -tu4 /dev/urandom)

.PHONY: demo test fuzz bench browser
.DELETE_ON_ERROR:

demo: .venv/installed-demo
	$(BIN)/windowgrad demo

test: .venv/installed-test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -n 2 --dist loadfile

# Every operator in guarded memory, and every public function with arguments of all kinds; SEED= and CASES= choose.
fuzz: .venv/installed-test
	$(BIN)/python tests/fuzz.py memory api --cases $(CASES) --seed $(SEED)

bench: .venv/installed-test
	$(BIN)/python benchmarks/pooling.py --plot docs/pooling.png
	$(BIN)/python benchmarks/convolution.py --plot docs/convolution.png

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

# PyTorch comes first and by its exact version, which is the CPU build; every other spelling brings gigabytes for GPUs.
.venv/installed-test: .venv/made pyproject.toml
	@echo "==> installing PyTorch, then windowgrad with every extra and the test tools (a few minutes the first time)"
	$(BIN)/python -m pip install torch==2.13.0
	$(BIN)/python -m pip install -e '.[torch,jax,dask,onnx,conform,demo]' --group test
	@touch $@
