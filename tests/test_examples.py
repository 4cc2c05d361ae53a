"""Examples run from the command line, with less work than they do for people."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import movegrad as mg

pytest.importorskip("matplotlib")
pytest.importorskip("rich")

ROOT = Path(__file__).parents[1]
RUNS = {
    "routing": ["--requests", "12", "--steps", "3000"],
}


@pytest.mark.parametrize("name", RUNS)
def test_examples_run_and_draw_their_figure(name, tmp_path):
    figure = tmp_path / "figure.png"
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / f"{name}.py", *RUNS[name], "--figure", figure],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert "objective" in done.stdout


def routing() -> dict:
    return runpy.run_path(str(ROOT / "examples" / "routing.py"))


def test_the_small_problem_of_the_routing_example_is_right_as_the_docs_say():
    report = mg.check(routing()["problem"]).raise_if_wrong()
    first = str(report).splitlines()[0]
    assert first in (ROOT / "docs" / "problems" / "routing.md").read_text(encoding="utf-8")
    assert "right on 88 solutions" in first


def test_the_instance_of_the_routing_example_is_the_same_for_the_same_seed():
    """The benchmark uses it too: waves that anyone can make again."""
    generate = routing()["generate"]
    (one, prizes), (two, again), (other, _) = generate(9, 1), generate(9, 1), generate(9, 2)
    assert (one.durations == two.durations).all()
    assert (prizes == again).all()
    assert (one.durations != other.durations).any()
    assert (one.durations != one.durations.T).any()


@pytest.mark.filterwarnings("ignore:::(pyepo|torch|tqdm|multiprocess|pathos|sklearn)")
def test_every_loss_of_the_pyepo_example_learns():
    pytest.importorskip("pyepo")
    example = runpy.run_path(str(ROOT / "examples" / "with_pyepo.py"))
    model, train, test = example["data"](64, 32)
    shown = (ROOT / "docs" / "guides" / "pyepo.md").read_text(encoding="utf-8")
    for name, loss in example["losses"](model).items():
        untrained, _ = example["fit"](loss, model, train, test, epochs=0)
        trained, _ = example["fit"](loss, model, train, test, epochs=3)
        assert trained < untrained, name
        assert name in shown
