"""Table of all cases: what is wrong, and how far the law of the compiled chain is from the Gibbs law.

``python -m tests.mutants [name …]``; a few seconds for each case, since each is compiled.
"""

import sys

from tests.mutants import RIGHT, WRONG
from tests.mutants.law import compare


def main() -> None:
    wanted = sys.argv[1:]
    for title, cases in (("wrong", WRONG), ("right", RIGHT)):
        shown = [c for c in cases.values() if not wanted or c.name in wanted]
        for case in shown:
            print(f"{title}  {case.name}: {case.sentence}")
            if case.hidden:
                print(f"       not by sampling: {case.hidden}", flush=True)
                continue
            verdict = compare(case)
            mark = "" if verdict.differs == (title == "wrong") else "   !!!"
            print(f"       {verdict}{mark}", flush=True)


if __name__ == "__main__":
    main()
