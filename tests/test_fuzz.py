"""Hostile calls of public functions end in a result or in one sentence that names the argument; ``make fuzz`` makes many more."""

import json
import sys
from dataclasses import asdict

import numpy as np
import pytest

from tests.fuzz import judge
from tests.fuzz.judge import ACCEPTED, CRASH, HANG, NONSENSE, OTHERWISE, REFUSED
from tests.fuzz.run import Call, run, watch
from tests.fuzz.values import Boom

CALLS = 400


def test_hostile_calls_end_well():
    """Of functions that accept right arguments, which the worker tries first."""
    calls = list(run(CALLS, seed=0, slow=False))
    assert [call.number for call in calls] == list(range(CALLS))
    bad = [call for call in calls if call.verdict not in (ACCEPTED, REFUSED)]
    told = "\n".join(map(str, bad))
    assert not [call for call in bad if call.verdict != OTHERWISE], told
    refusals = len(bad) + sum(call.verdict == REFUSED for call in calls)
    assert refusals > CALLS / 2
    assert len(bad) <= 0.01 * refusals, told


# --- the judge -------------------------------------------------------------------------------------------------------

JUDGED = [
    (ValueError("theta must be finite, got nan."), "theta", REFUSED),
    (ValueError("weights must hold as many entries, got 'Text. With a sentence.'."), "weights", REFUSED),
    (ValueError("theta must be finite, got nan."), "guide", OTHERWISE),
    (ValueError("theta must be finite, got nan"), "theta", OTHERWISE),
    (ValueError("theta is wrong. It must be finite."), "theta", OTHERWISE),
    (ValueError("theta must be finite,\ngot nan."), "theta", OTHERWISE),
    (ValueError(f"theta must be finite, got {'9' * 300}."), "theta", OTHERWISE),
    (KeyError("theta must be there."), "theta", OTHERWISE),
    (SystemExit("theta must be there."), "theta", OTHERWISE),
    (Boom("theta must be there."), "theta", OTHERWISE),
]


@pytest.mark.parametrize(("error", "argument", "verdict"), JUDGED)
def test_a_refusal_is_one_sentence_that_names_the_argument(error, argument, verdict):
    assert judge.refusal(error, argument, "array")[0] == verdict


def test_nonsense_that_is_accepted_is_seen():
    assert judge.acceptance(1.0, never=True, kind="array", finite=True)[0] == NONSENSE
    assert judge.acceptance((1, [np.array([0.0, np.nan])]), never=False, kind="array", finite=True)[0] == NONSENSE
    assert judge.acceptance(np.inf, never=False, kind="other", finite=True)[0] == NONSENSE
    assert judge.acceptance(np.nan, never=True, kind="other", finite=False)[0] == ACCEPTED


@pytest.mark.parametrize(("end", "verdict"), [("os.abort()", CRASH), ("time.sleep(1000)", HANG), ("sys.exit(0)", CRASH)])
def test_a_worker_that_dies_or_hangs_is_counted(end, verdict):
    done, begun = (json.dumps(asdict(c)) for c in (Call(7, verdict=ACCEPTED), Call(8, "sample", "theta", "a list")))
    script = f"import os, sys, time; print({done!r}); print({begun!r}, flush=True); {end}"
    first, second = watch([sys.executable, "-c", script], patience=1.0)
    assert (first.number, first.verdict) == (7, ACCEPTED)
    assert (second.number, second.target, second.verdict) == (8, "sample", verdict)
