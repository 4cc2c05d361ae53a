"""Make the calls: a worker process tells before each call which one it is, so that one that dies or hangs is known."""

import json
import os
import queue
import resource
import subprocess
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz.judge import CRASH, HANG, OTHERWISE, REFUSED, acceptance, is_finite, refusal

ROOT = Path(__file__).resolve().parents[2]
MEMORY = 3 << 30  # bytes that a worker may take beyond what it has at the start
PATIENCE = 120.0  # seconds for one call, compilation included


@dataclass
class Call:
    """One call and how it ended."""

    number: int
    target: str = ""
    argument: str = ""
    value: str = ""
    verdict: str = ""
    why: str = ""
    message: str = ""
    where: str = ""

    def __str__(self) -> str:
        ending = f"{self.verdict} ({self.why}) {self.where}: {self.message}".replace("\n", "⏎")
        return f"{self.number} {self.target}, {self.argument} = {self.value}: {ending:.300}"


# --- the worker ------------------------------------------------------------------------------------------------------


def work(seed: int, first: int, calls: int, slow: bool, only: str) -> None:
    """Make calls first…calls−1; two lines of JSON for each, before and after."""
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a call prints does not mix in
    from tests.fuzz.targets import targets

    found = [t for t in targets(slow) if only in t.name]
    pools = Pools()
    warm_up(found)
    limit_memory()
    for number in range(first, calls):
        case = choose(found, pools, seed, number)
        out.write(json.dumps(asdict(case[0])) + "\n")
        make(*case)
        out.write(json.dumps(asdict(case[0])) + "\n")


def warm_up(found: list) -> None:
    """Make all calls with right arguments: they must be accepted, and kernels are compiled before hostile calls are waited for."""
    for target in found:
        if any(pool.startswith("moves.") for pool in target.pools.values()):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            result = target.call(**target.right())
        if target.finite and not is_finite(result):
            raise ValueError(f"{target.name} gives {result} for right arguments.")


def limit_memory() -> None:
    """An allocation far beyond this is an error and not the end of the machine."""
    used = int(Path("/proc/self/status").read_text().split("VmData:")[1].split()[0]) * 1024 if sys.platform == "linux" else 0
    if used:
        resource.setrlimit(resource.RLIMIT_DATA, (used + MEMORY, resource.RLIM_INFINITY))


class Pools:
    """Values by kind of argument, with the chances of their lists."""

    def __init__(self) -> None:
        from tests.fuzz import values
        from tests.fuzz.targets import has

        tensors = values.tensors() if has("torch") else []
        self.lists = [values.NUMBERS, values.ARRAYS, values.ANYTHING, values.FUNCTIONS, tensors]
        self.shares = {
            "number": (0.6, 0.1, 0.2, 0.05, 0.05),
            "array": (0.1, 0.45, 0.2, 0.05, 0.2),
            "function": (0.1, 0.1, 0.2, 0.55, 0.05),
            "other": (0.15, 0.2, 0.4, 0.15, 0.1),
        }

    def draw(self, rng: np.random.Generator, target: Any, argument: str) -> Any:
        from tests.fuzz.special import special
        from tests.fuzz.values import Value

        pool = target.pools.get(argument)
        if pool and (pool.startswith("moves.") or rng.random() < 0.7):
            label, value = special(pool)[rng.integers(len(special(pool)))]
            return Value(label, lambda right: value)
        shares = np.array([s if values else 0.0 for s, values in zip(self.shares[target.kind(argument)], self.lists, strict=True)])
        values = self.lists[rng.choice(len(shares), p=shares / shares.sum())]
        allowed = [v for v in values if v.label not in target.takes_long(argument)]
        return allowed[rng.integers(len(allowed))]


def choose(found: list, pools: Pools, seed: int, number: int) -> tuple:
    """A target, one of its arguments and a value for it: the same for the same seed and number."""
    rng = np.random.default_rng([seed, number])
    weights = np.array([t.weight for t in found])
    target = found[rng.choice(len(found), p=weights / weights.sum())]
    arguments = target.right()
    names = target.only or tuple(arguments)
    argument = names[rng.integers(len(names))]
    value = pools.draw(rng, target, argument)
    return Call(number, target.name, argument, value.label), target, arguments, value


def make(call: Call, target: Any, arguments: dict[str, Any], value: Any) -> None:
    """Make a call and judge how it ended."""
    kind, names = target.kind(call.argument), target.names.get(call.argument, call.argument)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            hostile = value.make(arguments[call.argument])
        except Exception:  # not every right value can be made into this
            hostile = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", message="burn_in must be")  # said of a time limit, and no refusal
            result = target.call(**{**arguments, call.argument: hostile})
        call.verdict, call.why = acceptance(result, value.never and hostile is not None, kind, target.finite)
    except BaseException as error:  # also SystemExit and KeyboardInterrupt: they must not come from a call
        call.verdict, call.why = refusal(error, names, kind)
        try:
            call.message = f"{type(error).__name__}: {error}"[:400]
        except Exception:
            call.message = type(error).__name__
        if call.verdict == OTHERWISE:
            frames = [f for f in traceback.extract_tb(error.__traceback__) if "movegrad/" in f.filename]
            if target.foreign and not frames:
                call.verdict, call.why = REFUSED, "by another library"
            call.where = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""


# --- the parent ------------------------------------------------------------------------------------------------------


def run(calls: int, seed: int = 0, slow: bool = True, only: str = "", patience: float = PATIENCE) -> Iterator[Call]:
    """All calls, in workers that are replaced when they die or hang."""
    number = 0
    while number < calls:
        for call in _worker(seed, number, calls, slow, only, patience):
            yield call
            number = call.number + 1


def _worker(seed: int, first: int, calls: int, slow: bool, only: str, patience: float) -> Iterator[Call]:
    options = {"seed": seed, "first": first, "calls": calls, "only": only}
    command = [sys.executable, "-m", "tests.fuzz", "--worker", *(f"--{name}={value}" for name, value in options.items())]
    return watch(command if slow else [*command, "--quick"], patience)


def watch(command: list[str], patience: float) -> Iterator[Call]:
    """The calls that a worker tells, with the one in which it died or hung."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]), "MPLBACKEND": "Agg"}
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    lines: queue.Queue = queue.Queue()
    errors: list[str] = []
    threads = [
        threading.Thread(target=lambda: [*map(lines.put, process.stdout), lines.put("")]),  # type: ignore[arg-type, func-returns-value]
        threading.Thread(target=lambda: errors.extend(process.stderr)),  # type: ignore[arg-type]
    ]
    for thread in threads:
        thread.start()
    begun: Call | None = None
    try:
        while True:
            try:
                line = lines.get(timeout=patience if begun else None)
            except queue.Empty:
                yield _ended(begun, HANG, f"no end after {patience:g} s")
                return
            if not line:
                code = process.wait()
                threads[1].join()
                if begun is not None:
                    yield _ended(begun, CRASH, f"exit status {code}", "".join(errors)[-300:])
                elif code:
                    raise RuntimeError(f"the worker failed: {''.join(errors)[-3000:]}")
                return
            call = Call(**json.loads(line))
            begun = None if call.verdict else call
            if call.verdict:
                yield call
    finally:
        process.kill()
        for thread in threads:
            thread.join()
        process.communicate()  # closes the pipes


def _ended(call: Any, verdict: str, why: str, message: str = "") -> Call:
    call.verdict, call.why, call.message = verdict, why, message
    return call
