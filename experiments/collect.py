"""One file of rows from several of the same part: ``python -m experiments.collect OUT FILE FILE ...``.

Runs do not add to rows that other code made. Where more seeds, methods or data sets come later, by code that has changed elsewhere,
they are computed in a folder of their own and collected: settings must agree but for those that say which rows there are, which are
joined; every row says which code made it, and of two rows with the same key that of the later file counts.
"""

import argparse
from pathlib import Path
from typing import Any

from experiments.framework import answered
from experiments.store import Row, locked, read_record, write_rows

SEVERAL = "several versions, named by the rows"
JOINED = ("boards", "methods", "untuned")  # settings that say which rows there are


def joined(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Of two settings; one that a file lacks came after it, with the old value as its default."""
    for name in first.keys() & second.keys() - set(JOINED):
        if first[name] != second[name]:
            raise ValueError(f"FILE must have the settings of those before it, got {name} {second[name]}, not {first[name]}.")
    lists = {name: list(dict.fromkeys([*first[name], *second[name]])) for name in JOINED if name in first and name in second}
    return {**first, **second, **lists}


def collect(out: Path, files: list[Path]) -> int:
    """Write the rows of all files to one; how many they are."""
    for file in files:
        if file.name != out.name:
            raise ValueError(f"FILE must be of the same part as OUT, {out.name}, got {file}.")
    with locked(out):
        records = [read_record(file) for file in files]
        settings, rows = records[0].settings, dict[str, Row]()
        for record in records:
            settings = joined(settings, record.settings)
            rows |= {key: {**row, "code": row.get("code", record.code)} for key, row in record.rows.items()}
        codes = {row["code"] for row in rows.values()}
        machines = dict.fromkeys(machine for record in records for machine in record.machine.split("; "))
        head = {"settings": settings, "machine": "; ".join(machines), "code": codes.pop() if len(codes) == 1 else SEVERAL}
        write_rows(out, {**head, "rows": rows})
    return len(rows)


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.collect", description=__doc__)
    parser.add_argument("out", type=Path, metavar="OUT", help="the file to write; it may be among those that are read")
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE", help="files of rows; later ones count")
    options = parser.parse_args(words)
    with answered():
        print(f"{options.out}: {collect(options.out, options.files)} rows")


if __name__ == "__main__":
    main()
