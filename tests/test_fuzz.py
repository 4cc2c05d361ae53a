"""Hostile calls of public functions end in a result or in one sentence that names the argument; ``make fuzz`` makes many more."""

import warnings

import pytest

from tests.fuzz import judge
from tests.fuzz.targets import targets

TARGETS = {t.name: t for t in targets(slow=False)}


@pytest.mark.parametrize("name", TARGETS)
def test_right_arguments_are_accepted(name):
    """Else all hostile calls of this function would be refused for another reason than the one that is looked for."""
    target = TARGETS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = target.call(**target.right())
    assert not target.finite or judge.is_finite(result)
