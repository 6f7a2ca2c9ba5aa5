# Everything runs in .venv, where the package is installed in editable form: Python sources are found in this tree, the
# extension in the virtual environment, and the finder that joins them takes precedence over the current folder.
PYTHON ?= python3
JOBS ?= 2
CASE ?=
N ?= 1000

BIN := .venv/bin
SOURCES := pyproject.toml CMakeLists.txt $(wildcard csrc/*)

.PHONY: demo test lint bench fuzz wheel clean

demo: .venv/installed-demo
	$(BIN)/python examples/gcn.py

test: .venv/installed-test,lint
	$(BIN)/pytest -n $(JOBS) $(ARGS)

lint: .venv/installed-test,lint
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

bench: .venv/installed-bench
	$(BIN)/python benchmarks/run.py $(if $(CASE),--case $(CASE))

fuzz: .venv/installed-test,lint
	$(BIN)/python tests/programs/fuzz.py --count $(N) --jobs $(JOBS) $(ARGS)

wheel: .venv/created
	$(BIN)/pip install --quiet build
	$(BIN)/python -m build

clean:
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/created:
	$(PYTHON) -m venv .venv
	touch $@

# The suffix names extras of pyproject.toml. What an earlier goal installed stays.
.venv/installed-%: .venv/created $(SOURCES)
	$(BIN)/pip install --quiet --editable ".[$*]"
	touch $@
