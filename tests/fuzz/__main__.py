"""Count how hostile calls end, function by function.

python -m tests.fuzz --calls 10000 --seed 0
"""

import argparse
import json
import sys
from collections import Counter, defaultdict
from dataclasses import asdict
from pathlib import Path

from tests.fuzz.judge import ACCEPTED, CRASH, HANG, NONSENSE, OTHERWISE, REFUSED
from tests.fuzz.run import PATIENCE, Call, run, work

COLUMNS = (ACCEPTED, REFUSED, OTHERWISE, NONSENSE, CRASH, HANG)
TITLES = ("accepted", "refused by a sentence", "refused otherwise", "nonsense accepted", "crashed", "hung")


def table(calls: list[Call]) -> str:
    """A line for each function."""
    rows: dict[str, Counter] = defaultdict(Counter)
    for call in calls:
        rows[call.target][call.verdict] += 1
        rows["all"][call.verdict] += 1
    order = [*sorted(name for name in rows if name != "all"), "all"]
    width = max(map(len, order), default=0)
    lines = [f"{'function':<{width}} {'calls':>7}" + "".join(f" {title:>{len(title)}}" for title in TITLES)]
    for name in order:
        counts = "".join(f" {rows[name][c]:>{len(title)}}" for c, title in zip(COLUMNS, TITLES, strict=True))
        lines.append(f"{name:<{width}} {rows[name].total():>7}{counts}")
    return "\n".join(lines)


def main() -> int:
    """0 if no call crashed, hung or was nonsense, and 99 % of refusals are sentences."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Hostile calls of every public function.")
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="functions whose name contains this")
    parser.add_argument("--quick", action="store_true", help="without what compiles or imports for long")
    parser.add_argument("--patience", type=float, default=PATIENCE, help="seconds for one call (default: %(default)s)")
    parser.add_argument("--out", type=Path, help="write all calls to this file, a line of JSON each")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.seed, options.first, options.calls, not options.quick, options.only)
        return 0
    calls: list[Call] = []
    for call in run(options.calls, options.seed, not options.quick, options.only, options.patience):
        calls.append(call)
        if call.verdict not in (ACCEPTED, REFUSED):
            print(call, flush=True)
        elif sys.stderr.isatty() and len(calls) % 50 == 0:
            print(f"\r{len(calls)} calls", end="", file=sys.stderr)
    if options.out:
        options.out.write_text("".join(json.dumps(asdict(c)) + "\n" for c in calls), encoding="utf-8")
    counts = Counter(c.verdict for c in calls)
    refused = counts[REFUSED] + counts[OTHERWISE]
    print(table(calls))
    share = counts[REFUSED] / max(refused, 1)
    print(f"{counts[REFUSED]} of {refused} refusals are one sentence that names the argument ({share:.2%})")
    return int(bool(counts[NONSENSE] + counts[CRASH] + counts[HANG]) or counts[OTHERWISE] > 0.01 * refused)


if __name__ == "__main__":
    sys.exit(main())
