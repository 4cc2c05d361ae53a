"""The checker against planted mistakes and against unusual problems that are right.

The slow tests compile a kernel for each case: every check runs the compiled chain, too, and the mistakes are shown to be real by
compiled chains against the Gibbs law, by brute force.
"""

import numpy as np
import pytest

import movegrad as mg
from tests.mutants import RIGHT, WRONG
from tests.mutants.law import chernoff, compare
from tests.mutants.numbers import DOES_NOT_COMPILE
from tests.slow import slow_but_for

LONG = {  # 50,000 outcomes from each state; kernels of their own
    "shuffles_everything", "greedy_with_a_negative_power", "improve_with_a_negative_power",
}  # fmt: skip


def assert_found(case, compiled):
    report = mg.check(case.build(), compiled=compiled)
    assert not report.ok, f"{case.sentence}\n{report}"
    assert case.kinds & report.findings.keys(), f"{case.sentence}\nwanted: {sorted(case.kinds)}\n{report}"


def assert_passes(case, compiled):
    report = mg.check(case.build(), compiled=compiled)
    assert report.ok, f"{case.sentence}\n{report}"


@pytest.mark.parametrize("name", slow_but_for(WRONG.keys() - LONG, WRONG))
def test_mistake_is_found(name):
    assert_found(WRONG[name], compiled=WRONG[name].compiled)


@pytest.mark.parametrize("name", RIGHT)
def test_right_problem_passes(name):
    assert_passes(RIGHT[name], compiled=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n, case in WRONG.items() if not case.compiled and n != "shuffles_everything"])
def test_mistake_is_found_by_a_check_that_runs_the_compiled_chain(name):
    assert_found(WRONG[name], compiled=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", RIGHT)
def test_right_problem_passes_a_check_that_runs_the_compiled_chain(name):
    assert_passes(RIGHT[name], compiled=True)


def test_every_case_says_what_it_is():
    for case in (*WRONG.values(), *RIGHT.values()):
        assert case.sentence.endswith("."), case.name
    assert all(case.kinds for case in WRONG.values())
    assert not any(case.kinds for case in RIGHT.values())


def test_chernoff_bounds_exact_binomial_tails():
    n, p = 20, 0.3
    pmf = np.array(
        [float(np.prod(np.arange(n - k + 1, n + 1) / np.arange(1, k + 1))) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]
    )
    bounds = (1.0 + 1e-12) * np.exp(chernoff(np.arange(n + 1), np.full(n + 1, p), n))
    assert (pmf[::-1].cumsum()[::-1][7:] <= bounds[7:]).all()
    assert (pmf.cumsum()[:6] <= bounds[:6]).all()
    assert bounds[6] == pytest.approx(1.0)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n, case in WRONG.items() if not case.hidden])
def test_compiled_chain_of_a_wrong_problem_has_another_law(name):
    """A right chain would look so wrong with probability below 1e-9."""
    verdict = compare(WRONG[name])
    assert verdict.differs, f"{WRONG[name].sentence}\n{verdict}"


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n, case in WRONG.items() if case.hidden == DOES_NOT_COMPILE])
def test_what_does_not_compile_is_refused(name):
    problem = WRONG[name].build()
    with pytest.raises(ValueError, match=r"must compile for a kernel"):
        mg.sample(problem, np.zeros(problem.size), steps=1)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n, case in RIGHT.items() if not case.hidden])
def test_compiled_chain_of_a_right_problem_has_the_gibbs_law(name):
    """Fails for a right problem with probability below 1e-9."""
    verdict = compare(RIGHT[name])
    assert not verdict.differs, f"{RIGHT[name].sentence}\n{verdict}"
