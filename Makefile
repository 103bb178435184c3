# make demo: install into .venv and run the main job on the Census table.
# make test: install into .venv, lint, run every test and the examples in docstrings.
# A stamp file in .venv marks each step of the set-up, so that a step runs again only when what it read has changed.

PYTHON ?= python3
TORCH ?= torch==2.13.0
# Here a build without native ops is an error; `make demo MISSDIFF_NATIVE=auto` accepts plain PyTorch.
export MISSDIFF_NATIVE ?= on

VENV := .venv
BIN := $(VENV)/bin
# Python compiles a module when it is first imported; to compile all of them here would take a minute.
INSTALL := $(BIN)/python -m pip install --quiet --no-compile
STAMPS := $(VENV)/stamps
NATIVE_SOURCES := CMakeLists.txt setup.py pyproject.toml $(shell find csrc -type f)
CPP_SOURCES := $(shell find csrc tests -name '*.cpp' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh')

.PHONY: demo test tests test-versions test-newest test-oldest bench bench-check bench-save bench-gpu lint format quality rivals clean install docs graph

demo: $(STAMPS)/demo
	$(BIN)/missdiff demo

test: lint tests

# Those marked `alone` measure times, and run after the others.
tests: $(STAMPS)/dev
	$(BIN)/python -m pytest -m "not alone" --numprocesses auto --dist loadfile
	$(BIN)/python -m pytest -m alone

# A few minutes of tests under the newest and under the oldest versions that pyproject.toml allows, each in an environment
# of its own. They run beside a copy of the tests, so that the package is the one installed there, not the one of .venv.
NEWEST_PYTHON ?= python3.12
OLDEST_PYTHON ?= python3.10
NEWEST ?= '$(TORCH)' 'pandas>=3'
OLDEST ?= 'torch==2.10.*' 'pandas==2.2.*' 'numpy==1.26.*'
VERSIONS_TESTS ?= tests/test_codec_*.py tests/test_io.py tests/test_delimited.py tests/test_formats.py \
    tests/test_frame_kinds.py tests/test_date_forms.py tests/test_dialect.py tests/test_columns.py \
    tests/test_categories.py tests/test_given.py tests/test_dates.py tests/test_text_columns.py tests/test_hints.py \
    tests/test_text_memory.py tests/test_censored.py tests/test_resolution.py tests/test_state.py tests/test_refusals.py \
    tests/test_learning.py tests/test_filling.py tests/test_mimic4ed_simulated.py tests/test_cli_info.py \
    tests/test_cli_as_written.py

test-versions: test-newest test-oldest

test-newest:
	$(call test_in,.venv-newest,$(NEWEST_PYTHON),NEWEST_PYTHON,$(NEWEST))

test-oldest:
	$(call test_in,.venv-oldest,$(OLDEST_PYTHON),OLDEST_PYTHON,$(OLDEST))

# Environment, interpreter, its variable, versions. sdmetrics needs pandas below 3: the tests that need it skip.
# The interpreter is run rather than looked for: a shim of pyenv is there for versions that are not selected, too.
define test_in
@if ! $(2) -c '' 2>/dev/null; then echo "$@ skipped: no $(2) here; name an interpreter, $(3)=..."; exit; fi; \
set -e -x; \
$(2) -m venv $(1); \
install="$(1)/bin/python -m pip install --quiet --no-compile --prefer-binary"; \
$$install $(4); \
$$install 'setuptools>=77' 'pybind11>=3.0' ninja 'cmake>=3.25'; \
$$install --no-build-isolation '.[completion,files,polars,sklearn]' $(4) 'hypothesis>=6.100' 'pytest>=8.0' 'pytest-xdist>=3.5'; \
rm -rf $(1)/project; mkdir $(1)/project; cp -r conftest.py pyproject.toml tests $(1)/project; \
cd $(1)/project; ../bin/missdiff info; \
../bin/python -m pytest -m "not alone" --numprocesses auto --dist loadfile $(VERSIONS_TESTS)
endef

# Everything at MIMIC4ED's size against eager PyTorch and torch.compile; ratios are printed, none is kept.
bench: $(STAMPS)/dev
	$(BIN)/python -m pytest bench --benchmark-only

# Two minutes, for CI: few rows, one thread, eager PyTorch. Fails where a ratio is more than 15 % under the one stored in
# bench/results/ops_cpu.json, measured twice; skips, with the reason, where the stored ones do not compare.
bench-check: $(STAMPS)/dev
	$(BIN)/python -m pytest bench --benchmark-only --check --benchmark-columns=min,rounds

# On a quiet machine, after a commit: measures all that docs/benchmarks.md shows, the better part of an hour.
bench-save: $(STAMPS)/dev
	$(BIN)/python -m pytest bench --benchmark-only --save-results
	$(BIN)/python -m pytest bench --benchmark-only --check --save-results
	$(BIN)/python bench/sweeps.py --save
	$(BIN)/python bench/profile_fit.py --save
	$(BIN)/python bench/mimic_scale.py --save
	$(BIN)/python bench/codec_scale.py --save
	$(BIN)/python bench/census_speed.py --save
	$(BIN)/python bench/time_to_quality.py --save
	$(BIN)/python bench/report.py

# On a machine with a card, and with PyTorch and build tools of its own: builds in place, tests, checks and measures.
bench-gpu:
	PYTHON=$(PYTHON) bench/gpu/check.sh

# make quality QUALITY='--data FOLDER --seeds 0': what it takes is in bench/quality/command.py. It goes on where it stopped.
quality: $(STAMPS)/dev
	$(BIN)/python bench/quality $(QUALITY)

# The environment of the methods that need packages of their own, in .venv-rivals; `make quality` does without.
rivals:
	$(PYTHON) -m venv .venv-rivals
	.venv-rivals/bin/python -m pip install --quiet "$(TORCH)"
	.venv-rivals/bin/python -m pip install --quiet --requirement bench/quality/requirements-rivals.txt

lint: $(STAMPS)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run -Werror $(CPP_SOURCES)
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMPS)/dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CPP_SOURCES)

clean:
	rm -rf $(VENV) .venv-newest .venv-oldest .venv-rivals build dist *.egg-info missdiff_fast/_C.*.so missdiff_fast/_build.json

# What tests and lint need, without running them.
install: $(STAMPS)/dev

# The site, in build/site. A warning fails.
docs: $(STAMPS)/docs
	$(BIN)/python docs/command_line.py
	$(BIN)/mkdocs build --strict

# The imports within the package, in build/imports.svg.
graph: $(STAMPS)/docs
	$(BIN)/python docs/import_graph.py build/imports.svg

# torch comes first and alone, so that no other package chooses its version.
$(STAMPS)/torch:
	$(PYTHON) -m venv $(VENV)
	mkdir -p $(STAMPS)
	$(INSTALL) '$(TORCH)'
	touch $@

# Without build isolation the extension is built against the torch that it will run with, and torch is not fetched twice.
$(STAMPS)/build-tools: $(STAMPS)/torch
	$(INSTALL) 'setuptools>=77' 'pybind11>=3.0' ninja 'cmake>=3.25'
	touch $@

$(STAMPS)/demo: $(STAMPS)/build-tools $(NATIVE_SOURCES)
	$(INSTALL) --no-build-isolation --editable '.[demo]'
	touch $@

$(STAMPS)/dev: $(STAMPS)/build-tools $(NATIVE_SOURCES)
	$(INSTALL) --no-build-isolation --editable '.[dev]'
	touch $@

$(STAMPS)/docs: $(STAMPS)/dev
	$(INSTALL) --no-build-isolation --editable '.[docs]'
	touch $@
