# Every target makes what it needs: a virtual environment in .venv with the package installed editable.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --retries 10 --timeout 60
# Without an environment of its own for the build, which would get NumPy and SciPy, for stubs that only wheels have.
EDITABLE := $(PIP_INSTALL) "hatchling>=1.26" editables && $(PIP_INSTALL) --no-build-isolation --editable
PYTEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal

# make fuzz: how long each campaign runs, and from which seed
SECONDS_EACH ?= 600
SEED ?= 0
CAMPAIGNS := $(filter-out __init__ campaign test_campaigns,$(basename $(notdir $(wildcard tests/campaigns/*.py))))

# make array-api: where github.com/data-apis/array-api-tests was cloned to, with its submodule and its requirements
SUITE ?= ../array-api-tests
EXAMPLES_EACH ?= 100

LEDGER := tests/stored/certificates.txt

.PHONY: help demo test units oracle array-api fuzz certify rivals bench bench-eager docs lint format stubs dist clean
help:  ## say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.base  ## value, gradient and Hessian of a function, checked
	$(BIN)/adjoint demo

test: $(VENV)/.test  ## linter, formatter, type checker, unit tests and doctests
	$(MAKE) --jobs=2 lint units

# beside the type checker, which uses one core
units: $(VENV)/.test  ## unit tests and doctests
	$(PYTEST) --ignore=tests/oracle --ignore=tests/dist --ignore=src/adjoint/kernels --doctest-modules src tests

oracle: $(VENV)/.test $(VENV)/.oracle  ## compare with PyTorch
	$(PYTEST) -m oracle tests/oracle

array-api: $(VENV)/.test  ## the array API standard's own tests, from a clone of theirs (SUITE, EXAMPLES_EACH)
	cd $(SUITE) && ARRAY_API_TESTS_VERSION=2024.12 \
	  ARRAY_API_TESTS_MODULE="exec('import adjoint.array_api as xp; xp.standard_operators().__enter__()')" \
	  $(abspath $(BIN))/python -m pytest -q -p no:cacheprovider --disable-deadline --max-examples=$(EXAMPLES_EACH) array_api_tests

fuzz: $(VENV)/.test $(VENV)/.oracle  ## random checks at length: ten minutes of each campaign (SECONDS_EACH, SEED)
	for campaign in $(CAMPAIGNS); do \
	  echo $$campaign; $(BIN)/python -m tests.campaigns.$$campaign --seconds $(SECONDS_EACH) --seed $(SEED) || exit 1; \
	done

certify: $(VENV)/.certify  ## measure every row against proven truths, compare with the ledger, write it
	$(BIN)/adjoint certify --jobs 2 --above 16 --against $(LEDGER) --write $(LEDGER)
	$(BIN)/python -m docs.building.certificates

rivals: $(VENV)/.bench  ## measure PyTorch and JAX against the same truths
	$(BIN)/adjoint certify --jobs 2 --above inf --rivals --write $(LEDGER)
	$(BIN)/python -m docs.building.certificates

bench: $(VENV)/.bench  ## compare speed with PyTorch, JAX, HIPS autograd, PyTensor, CasADi
	$(BIN)/python -m benchmarks

bench-eager: $(VENV)/.bench  ## cost of an operator and memory of a backward in eager mode
	$(BIN)/python benchmarks/eager_overhead.py
	$(BIN)/python benchmarks/eager_memory.py

docs: $(VENV)/.docs  ## the site, with a page for every operator, into docs/_build/html
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m docs.building

lint: $(VENV)/.test  ## ruff and basedpyright
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright

format: $(VENV)/.test  ## reformat and mend what ruff can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

stubs: $(VENV)/.base  ## write the stubs that type checkers read (wheels have them)
	$(BIN)/adjoint stubs

dist: $(VENV)/.dist  ## build wheel and source archive, check them, and try the wheel in an empty environment
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python -m pytest -q tests/dist

clean:  ## remove the environment and caches
	rm -rf $(VENV) .pytest_cache .ruff_cache build dist docs/_build

$(VENV)/.created:
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.base: pyproject.toml | $(VENV)/.created
	$(EDITABLE) .
	touch $@

# .test, .oracle, .bench, .docs: the package with the extra of that name
$(VENV)/.%: pyproject.toml | $(VENV)/.created
	$(EDITABLE) ".[$*]"
	touch $@
