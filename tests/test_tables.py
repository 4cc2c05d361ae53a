"""Tables of the studies' pages: those of the committed results, number by number."""

import json
import re
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest

pytest.importorskip("rich")
pytest.importorskip("matplotlib")

from experiments import tables

ROOT = Path(__file__).resolve().parents[1]
NEEDS = {"knapsack": ("pyepo",), "dvrptw": ("torch_geometric", "pyvrp"), "arena": ("pyepo", "highspy", "clarabel")}
# Tables that say what is compared, and give no results.
DESCRIPTIONS = (
    "| file |",
    "| layer | ŷ |",
    "| name | method | sees | in training |",
    "| part | what | whose | files |",
)
# Numbers in tables of a page that are neither in a table of the results nor in their settings, and where they are from.
EXCEPTIONS = {
    "convergence": {"4000": "where two curves of a figure cross"},
    "recovery": {"0.79": "the norm of the minimizer, by Newton's method", "1e33": "what a condition of the theorem asks for"},
    "dvrptw": {"7.8 %": "the paper's", "5.9 %": "the paper's"},
}


@pytest.mark.parametrize("name", tables.STUDIES)
def test_the_page_of_all_tables_is_what_the_committed_rows_give(name):
    for package in NEEDS.get(name, ()):
        pytest.importorskip(package)
    folder = ROOT / "experiments" / name
    again = f"run python -m experiments.tables {name}"
    assert (folder / "results" / "tables.md").read_text(encoding="utf-8") == tables.page(name), again
    assert (folder / "README.md").read_text(encoding="utf-8") == tables.readme(name), again


# --- numbers -----------------------------------------------------------------------------------------------------------------

SUPERSCRIPT = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
POWER = r"10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)"
DIGITS = r"\d+(?:[, ]\d{3})*(?:\.\d+)?(?:e[-+]?\d+(?!\w))?"  # no exponent in names of instances, such as 21e8376e
NUMBER = re.compile(rf"(?<![\w.])(?P<sign>[-−+]?)(?P<value>{DIGITS})(?: ?± ?(?P<half>{DIGITS}))? ?(?P<unit>%|(?:ms|µs|ns|s)\b)?")
UNITS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9, "%": 0.01, None: 1.0}


class Number(NamedTuple):
    """A value, what half a unit of its last digit is, and the same of the half-width of its interval, if there is one."""

    text: str
    value: float
    rounding: float
    half: float | None
    half_rounding: float

    def rounds(self, other: "Number") -> bool:
        """Whether this is the other with fewer digits."""
        if self.half is not None and (other.half is None or abs(self.half - other.half) > self.half_rounding):
            return False
        value = other.value if self.text[0] in "+-−" else abs(other.value)
        return abs(self.value - value) <= self.rounding


def read(digits: str, factor: float) -> tuple[float, float]:
    """A value, and half a unit of its last digit."""
    plain, _, exponent = re.sub("[, ]", "", digits).partition("e")
    unit = 10.0 ** (int(exponent or 0) - len(plain.partition(".")[2]))
    return float(plain) * 10.0 ** int(exponent or 0) * factor, 0.500001 * unit * factor


def numbers(text: str) -> list[Number]:
    text = re.sub(rf"\(([^()±]+) ?±([^()]+)\)·{POWER}", lambda m: f"{m[1].strip()}·10{m[3]} ±{m[2]}·10{m[3]}", text)
    text = re.sub(rf"(?<=\d)·{POWER}", lambda m: f"e{m[1].translate(SUPERSCRIPT)}", text)
    text = re.sub(rf"\b{POWER}", lambda m: f"1e{m[1].translate(SUPERSCRIPT)}", text)
    found = []
    for match in NUMBER.finditer(text):
        factor, sign = UNITS[match["unit"]], -1.0 if match["sign"] in ("-", "−") else 1.0
        value, rounding = read(match["value"], factor)
        half, half_rounding = read(match["half"], factor) if match["half"] else (None, 0.0)
        found.append(Number(match[0].strip(), sign * value, rounding, half, half_rounding))
    return found


def cells(text: str) -> list[str]:
    """Cells of the tables of a page that give results; settings in the first row are numbers, too."""
    found = []
    for shown in re.findall(r"(?:^\|.*\n)+", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE), re.MULTILINE):
        if not shown.startswith(DESCRIPTIONS):
            found += [cell.strip() for line in shown.splitlines() for cell in line.replace("**", "").split("|")]
    return found


def unsupported(page: str, report: str, settings: str = "") -> list[str]:
    """Numbers of the page's tables that are no rounding of any number of the report, or of the settings."""
    known = numbers("\n".join([*cells(report), settings]))
    asked = [number for cell in cells(page) for number in numbers(cell)]
    return [number.text for number in asked if not any(number.rounds(other) for other in known)]


@pytest.mark.parametrize("name", tables.STUDIES)
def test_every_number_in_a_table_of_a_page_is_one_of_the_results(name):
    folder = ROOT / "experiments" / name
    page, report = ((folder / file).read_text(encoding="utf-8") for file in ("README.md", "results/tables.md"))
    settings = [str(json.loads(path.read_text(encoding="utf-8"))["settings"]) for path in (folder / "results").rglob("*.json")]
    missing = unsupported(page, report, "\n".join(settings))
    assert sorted(set(missing)) == sorted(EXCEPTIONS.get(name, {}))


def test_a_number_is_supported_by_what_it_rounds():
    report = "| method | regret |\n| --- | --- |\n| ours | 0.0951 ±0.004 |\n| theirs, 10000 steps | -0.00191 |\n| time | 56 ms |\n"
    page = "| m | r |\n|---|---|\n| ours, 10,000 | {} |\n"
    for right in (
        "0.095",
        "0.0951 ±0.004",
        "**0.1**",
        "−0.0019",
        "0.0019",
        "0.056 s",
        "56.0 ms",
        "−1.91·10⁻³",
        "(9.51 ±0.4)·10⁻²",
        "9.5 %",
    ):
        assert unsupported(page.format(right), report) == [], right
    for wrong in ("0.096", "0.0951 ±0.005", "0.0952", "+0.0019", "0.057 s", "−1.91", "0.00191 ±0.004"):
        assert unsupported(page.format(wrong), report) != [], wrong


def test_studies_are_those_of_the_list():
    found = {path.parent.name for path in (ROOT / "experiments").glob("*/study.py")}
    assert found == set(tables.STUDIES)
    assert all(import_module(f"experiments.{name}.summary").table for name in tables.SUMMARIES)


def test_what_is_said_of_the_network_that_comes_with_the_study_is_what_its_days_cost():
    pytest.importorskip("torch_geometric")
    pytest.importorskip("pyvrp")
    from experiments.dvrptw.policies import digest
    from experiments.dvrptw.report import played_tables
    from experiments.dvrptw.settings import Played
    from experiments.dvrptw.study import NETWORK
    from experiments.framework import rebuilt
    from experiments.store import read_record

    record = read_record(ROOT / "experiments/dvrptw/results/network/played.json")
    assert list(record.rows) == ["kleopatra", "greedy", f"network {digest(NETWORK)}"], "these days were played by this network"
    table, *_ = played_tables(22, rebuilt(Played, record.settings), record.rows)
    assert list(table.columns[2].cells)[1:] == ["+11.86 (+9.71 – +14.02): behind", "+1.79 (+0.06 – +3.52): behind"]
    page = (ROOT / "experiments/dvrptw/README.md").read_text(encoding="utf-8")
    assert "1.79 % (0.06 – 3.52) more than the published network" in page
    assert "greedy 11.86 % (9.71 – 14.02) more" in page


def test_what_is_said_of_busier_days_is_what_they_cost():
    pytest.importorskip("torch_geometric")
    pytest.importorskip("pyvrp")
    from experiments.dvrptw.report import played_tables
    from experiments.dvrptw.settings import Played
    from experiments.framework import rebuilt
    from experiments.store import read_record

    record = read_record(ROOT / "experiments/dvrptw/results/busy/played.json")
    table, *_ = played_tables(22, rebuilt(Played, record.settings), record.rows)
    assert str(table.title).startswith("22 days of 22 instances, 100 arrivals")
    found = dict(zip(table.columns[0].cells, table.columns[2].cells, strict=True))
    page = (ROOT / "experiments/dvrptw/README.md").read_text(encoding="utf-8")
    for policy, word, said in (
        ("mean", "undecided", "0.35 % more (−0.93 – +1.62)"),
        ("network", "behind", "2.69 % (1.21 – 4.17) more"),
        ("greedy", "behind", "10.68 % (8.96 – 12.40) more"),
    ):
        mean, low, high = (float(n.replace("−", "-")) for n in re.findall(r"[−+]?\d+\.\d+", said))
        assert found[policy] == f"{mean:+.2f} ({low:+.2f} – {high:+.2f}): {word}"
        assert " ".join(said.split()) in " ".join(page.split())


@pytest.mark.parametrize(("folder", "days", "said"), [("test", 22, "1.46 % (0.41 – 2.52)"), ("new", 66, "1.87 % (0.34 – 3.40)")])
def test_what_is_said_of_ten_networks_is_what_their_days_cost(folder, days, said):
    pytest.importorskip("torch_geometric")
    pytest.importorskip("pyvrp")
    from experiments.dvrptw.report import played_tables
    from experiments.dvrptw.settings import Played
    from experiments.framework import rebuilt
    from experiments.store import read_record

    record = read_record(ROOT / "experiments/dvrptw/results/ensemble" / folder / "played.json")
    table, *_ = played_tables(22, rebuilt(Played, record.settings), record.rows)
    assert str(table.title).startswith(f"{days} days of 22 instances")
    mean, low, high = re.findall(r"\d+\.\d+", said)
    assert list(table.columns[2].cells)[1] == f"-{mean} (-{high} – -{low}): ahead"
    assert said in (ROOT / "experiments/dvrptw/README.md").read_text(encoding="utf-8")


def test_what_is_said_of_ten_networks_of_each_layer_is_what_their_days_cost():
    pytest.importorskip("torch_geometric")
    pytest.importorskip("pyvrp")
    from experiments.dvrptw.report import played_tables
    from experiments.dvrptw.settings import Played
    from experiments.framework import rebuilt
    from experiments.store import read_record

    record = read_record(ROOT / "experiments/dvrptw/results/ensemble/kinds/played.json")
    levels, pairs = played_tables(22, rebuilt(Played, record.settings), record.rows)
    assert str(levels.title).startswith("88 days of 22 instances")
    page = (ROOT / "experiments/dvrptw/README.md").read_text(encoding="utf-8").replace("−", "-").replace("**", "")
    for said in list(levels.columns[2].cells)[1:]:
        assert said.replace(": ", ", ") in page
    found = {tuple(row[:2]): row[2] for row in zip(*(column.cells for column in pairs.columns), strict=True)}
    for layer in ("heuristic-1ms", "target-1ms"):
        interval, word = found[layer, "pfy-warm-1ms-300"].split(": ")
        assert interval in page
        assert word == "undecided"
        mean, high, low = re.findall(r"\d+\.\d+", found[layer, "pfy-warm-1ms"])
        assert f"{mean} ({low} – {high})" in page
        assert found[layer, "pfy-warm-1ms"].endswith("ahead")
