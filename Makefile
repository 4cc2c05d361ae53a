# Every target sets up what it needs in .venv, from a fresh clone.
PYTHON ?= python3
PYTHON_OLDEST ?= python3.11
PIP = .venv/bin/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt
IN_PARALLEL = --numprocesses auto --dist worksteal
# What test-oldest runs: the core, and the compiler around it.
CORE = $(patsubst %,tests/test_%.py,versions sampling torch torch_compile start check exact knapsack disk_cache reach specialise limits)

.PHONY: demo test test-all test-oldest fuzz bench reproduce-convergence reproduce-recovery reproduce-knapsack reproduce-dvrptw arena lint format clean

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

.venv/ready-bench: .venv/ready
	$(PIP) --group bench
	@touch $@

clean:
	rm -rf .venv .venv-oldest build dist .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
