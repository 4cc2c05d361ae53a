"""Which tests are slow: `make test` leaves them to `make test-all`.

A test is slow if it takes seconds, mostly since it compiles a kernel of its own or enumerates a larger set, and if a test that is
not slow makes the same claim on another case. Tests that are alone with their claim are never slow.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Any

import pytest


def slow_but_for(fast: Collection[Any] | Callable[[Any], bool], cases: Iterable[Any]) -> list[Any]:
    """Cases for parametrize; those that are not among the fast ones are slow."""
    is_fast = fast if callable(fast) else fast.__contains__
    cases = list(cases)
    assert any(map(is_fast, cases)), "some case must be fast"
    assert callable(fast) or all(case in cases for case in fast), "a fast case has another name now"
    return [case if is_fast(case) else pytest.param(case, marks=pytest.mark.slow) for case in cases]
