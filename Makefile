# Every target sets up what it needs in .venv, from a fresh clone.
PYTHON ?= python3
PYTHON_OLDEST ?= python3.11
PIP = .venv/bin/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt
IN_PARALLEL = --numprocesses auto --dist worksteal
# What test-oldest runs: the core, and the compiler around it.
CORE = $(patsubst %,tests/test_%.py,versions sampling torch torch_compile start check exact knapsack disk_cache reach specialise limits)

.PHONY: demo test test-all test-oldest test-python docs docs-serve docs-test release-check fuzz bench arena \
	reproduce-convergence reproduce-recovery reproduce-knapsack reproduce-dvrptw lint format clean

demo: .venv/ready
	.venv/bin/python examples/knapsack.py

test: .venv/ready-test lint
	.venv/bin/python -m pytest $(IN_PARALLEL) -m "not slow"

# The tests that `make test` leaves out: more cases of the same claims (tests/slow.py).
test-all: .venv/ready-test
	.venv/bin/python -m pytest $(IN_PARALLEL) -m slow

# On the oldest versions of NumPy, Numba and torch. The first time: 3 GB of downloads, since that torch brings CUDA along.
test-oldest: .venv-oldest/ready
	.venv-oldest/bin/python -m pytest $(IN_PARALLEL) -m "not slow" $(CORE)

# The core on another Python, with wheels only: make test-python PYTHON=python3.14. Where there is none, which wheels there would be.
test-python:
	@if $(PYTHON) -c "" 2> /dev/null; then \
		$(PYTHON) -m venv --clear .venv-python && \
		.venv-python/bin/python -m pip --disable-pip-version-check install --quiet --only-binary :all: --constraint constraints.txt \
			numpy numba torch matplotlib pytest pytest-xdist hypothesis && \
		.venv-python/bin/python -m pip --disable-pip-version-check install --quiet --no-deps --editable . && \
		.venv-python/bin/python -m pytest $(IN_PARALLEL) -m "not slow" $(CORE); \
	else \
		echo "test-python: there is no $(PYTHON) here, so nothing was tested. Wheels for it:"; \
		for package in numpy numba torch; do \
			python3 -m pip --disable-pip-version-check install --quiet --dry-run --no-deps --only-binary :all: \
				--constraint constraints.txt --python-version $(subst python,,$(notdir $(PYTHON))) --target build/none \
				$$package > /dev/null 2>&1 && echo "  $$package: yes" || echo "  $$package: no"; \
		done; \
	fi

# The site, offline, into build/docs: notebooks run, and every warning is an error.
docs: .venv/ready-docs
	MOVEGRAD_QUIET=1 .venv/bin/python -m sphinx --fail-on-warning --keep-going --quiet --write-all \
		--doctree-dir build/doctrees docs build/docs
	@echo "the site: build/docs/index.html (make docs-serve shows it)"

docs-serve: docs
	.venv/bin/python -m http.server --bind 127.0.0.1 --directory build/docs 8000

# The built site in a browser: links, search, keys, narrow and dark.
docs-test: docs .venv/ready-test
	.venv/bin/python -m pytest tests/test_site.py

# What goes to an index of packages: the files, what they say of themselves, and their types in a project of a user.
release-check: .venv/ready-release
	rm -rf build/release && mkdir -p build/release
	.venv/bin/python -m build --outdir build/release .
	.venv/bin/python -m twine check --strict build/release/*
	.venv/bin/pyright --pythonpath .venv/bin/python --project tests/user

# Hostile calls of every public function: a table of how they end (some minutes).
fuzz: .venv/ready-test
	.venv/bin/python -m tests.fuzz --calls 10000 --seed 0

lint: .venv/ready-test
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy

format: .venv/ready-test
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

bench: .venv/ready-bench
	.venv/bin/python benchmarks/engine.py
	.venv/bin/python benchmarks/routing.py
	.venv/bin/python benchmarks/zoo/program.py
	.venv/bin/python benchmarks/zoo/tour.py --only steps
	.venv/bin/python benchmarks/zoo/binary.py --only speed

# Results go to out/ beside each study, not to those that come with it.
reproduce-convergence: .venv/ready
	.venv/bin/python -m experiments.convergence --full

reproduce-recovery: .venv/ready
	.venv/bin/python -m experiments.recovery --full

reproduce-knapsack: .venv/ready
	$(PIP) --group knapsack
	.venv/bin/python -m experiments.knapsack --only benchmark tuned solve

# Benchmarks of others against the methods people would use instead, everything small; experiments/arena/README.md has the rest.
arena: .venv/ready
	$(PIP) --group arena
	.venv/bin/python -m experiments.arena
	.venv/bin/python -m experiments.arena.summary experiments/arena/out/quick

# On generated days; with the competition's data: add --full, see experiments/dvrptw/README.md.
reproduce-dvrptw: .venv/ready
	$(PIP) --group dvrptw
	.venv/bin/python -m experiments.dvrptw

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	@echo "Setting up .venv (a minute or two the first time) …"
	.venv/bin/python -m pip --disable-pip-version-check install --quiet --upgrade "pip>=25.1"
	$(PIP) --editable ".[all]"
	@touch $@

.venv/ready-test: .venv/ready
	$(PIP) --group test
	@touch $@

.venv-oldest/ready: pyproject.toml constraints-oldest.txt
	$(PYTHON_OLDEST) -m venv .venv-oldest
	@echo "Setting up .venv-oldest (some minutes the first time) …"
	.venv-oldest/bin/python -m pip --disable-pip-version-check install --quiet --constraint constraints-oldest.txt \
		--editable ".[torch]" pytest pytest-xdist hypothesis
	@touch $@

.venv/ready-docs: .venv/ready
	$(PIP) --group docs
	@touch $@

.venv/ready-release: .venv/ready
	$(PIP) --group release
	@touch $@

.venv/ready-bench: .venv/ready
	$(PIP) --group bench
	@touch $@

clean:
	rm -rf .venv .venv-oldest .venv-python build dist .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
