"""Tables of the pages of problems: what a step costs and how far solutions are from the best known, from benchmarks/zoo."""

from collections import defaultdict

from numbers_of_record import medians, table, times

TOURS, BINARY, PROGRAM = (medians(f"benchmarks/results/zoo_{name}.json") for name in ("tour", "binary", "program"))
LIMIT = ", 10 s"
PYVRP = f"{LIMIT}, PyVRP"


def steps(names: dict[str, float], begin: str, *words: str, end: str = "") -> str:
    """The rows that begin so and contain one of the words, in flips of a bit on the hypercube."""
    rows = [
        [name.removeprefix(begin).removesuffix(end), times(value)]
        for name, value in names.items()
        if name.startswith(begin) and any(word in name for word in words)
    ]
    return table(["a step of", "over a flip of a bit"], rows)


def gaps(names: list[str], best: str) -> str:
    """In 10 s, beside PyVRP where it was there."""
    compared = all(name + PYVRP in TOURS for name in names)
    rows = [[name, *(f"{TOURS[name + who]:.2f} %" for who in (LIMIT, PYVRP)[: 1 + compared])] for name in names]
    return table(["instance", f"`mg.solve`: above {best}", *["PyVRP"] * compared], rows)


def cuts() -> str:
    """G-set: gaps to the best known cuts, beside dwave-samplers."""
    found: dict[str, list[float]] = defaultdict(list)
    whos: dict[str, None] = {}
    for name, value in BINARY.items():
        if name.startswith("G") and ": " in name:
            graph, who = name.split(": ")
            found[graph].append(value)
            whos[who.rsplit(", ", 1)[0]] = None
    rows = [[*graph.split(", "), *(f"{value:.3f} %" for value in values)] for graph, values in found.items()]
    return table(["graph", "best known cut", *(f"{who}: below it" for who in whos)], rows)


def from_best(names: list[str]) -> str:
    """Generalized assignment and scheduling."""
    rows = [[name.replace(": movegrad", ""), f"{BINARY[name]:.3f} %"] for name in names]
    return table(["instance", "from the best known"], rows)


def generality() -> str:
    rows = [[name, times(value)] for name, value in PROGRAM.items() if not name.startswith(" ")]
    return table(["set", "a step of `BinaryProgram` over that of the problem made for the set"], rows)


WITH_PYVRP = [name.removesuffix(PYVRP) for name in TOURS if name.endswith(PYVRP)]
CLIENTS = [name for name in WITH_PYVRP if "_10_" in name]  # prize-collecting routing with a thousand of them
PERMUTATIONS = [
    name.removesuffix(LIMIT)
    for name in TOURS
    if name.endswith(LIMIT) and not name.startswith("CVRP") and name.removesuffix(LIMIT) not in WITH_PYVRP
]
FLIP = " / flip of a bit"
ZOO = {
    "tsp_steps_table": steps(TOURS, "a step of ", "TSP", "CVRP"),
    "tsp_table": gaps([name for name in WITH_PYVRP if name not in CLIENTS], "optimal"),
    "cvrp_gaps": ", ".join(
        f"{value:+.2f} % for {name.split(', ')[1]}"
        for name, value in TOURS.items()
        if name.startswith("CVRP") and name.endswith(LIMIT)
    ),
    "prizes_table": gaps(CLIENTS, "the best known"),
    "assignment_steps_table": steps(TOURS, "a step of ", "assignment"),
    "qap_table": gaps(PERMUTATIONS, "the best known"),
    "cuts_table": cuts(),
    "qubo_speeds": ", ".join(
        f"{value:.2f} ({name.split(': ')[0].removeprefix('degree 48, ')})"
        for name, value in BINARY.items()
        if name.endswith("QUBO / by hand")
    ),
    "gap_table": from_best([name for name in BINARY if ": movegrad" in name and name[0] != "G"]),
    "gap_steps_table": steps(BINARY, "time per step, ", "generalized", end=FLIP),
    "icon_table": from_best([name for name in BINARY if name.startswith("load ")]),
    "icon_steps_table": steps(BINARY, "time per step, ", "scheduling", end=FLIP),
    "program_table": generality(),
}
