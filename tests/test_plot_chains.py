"""Pictures of chains: what is drawn is what the run says."""

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from matplotlib.figure import Figure

import movegrad as mg

PROBLEM, THETA = mg.problems.TopK(6, 2), np.linspace(-1.0, 1.0, 6)
KNAPSACK = mg.problems.Knapsack([[2.0, 3.0, 4.0, 5.0]], [7.0])


@pytest.fixture(scope="module")
def run() -> mg.Sample:
    return mg.sample(PROBLEM, THETA, steps=1000, chains=3, trace=50)


def test_a_trace_has_a_line_for_each_chain_at_the_recorded_steps(run):
    figure = mg.plot.trace(run)
    for column, axes in enumerate(figure.axes):
        assert len(axes.lines) == 3
        for c, line in enumerate(axes.lines):
            np.testing.assert_array_equal(line.get_ydata(), run.info.trace[0, c, :, column])
            np.testing.assert_array_equal(line.get_xdata(), 20 * np.arange(1, 51))
    assert f"R-hat {run.info.r_hat['objective'][0]:.3f}" in figure.get_suptitle()
    assert len(mg.plot.trace(run.info, axes=Figure().subplots(2)).axes) == 2


def test_shares_of_each_move_add_up_to_one():
    info = mg.sample(KNAPSACK, np.array([3.0, 4.0, 6.0, 6.0]), steps=500, chains=2).info
    axes = mg.plot.acceptance(info).axes[0]
    widths = np.array([[bar.get_width() for bar in container] for container in axes.containers])
    np.testing.assert_allclose(widths.sum(0), 1.0)
    np.testing.assert_allclose(widths[0], info.acceptance)
    np.testing.assert_allclose(widths[2], info.infeasible / info.drawn)
    assert widths[2].sum() > 0
    assert [label.get_text().split(":")[0] for label in axes.get_yticklabels()] == info.moves


def test_marginals_are_the_mean_with_two_standard_errors(run):
    exact = mg.exact.marginals(PROBLEM, THETA)
    axes = mg.plot.marginals(run, exact=exact, names=list("abcdef")).axes[0]
    points = {line.get_label(): line.get_ydata() for line in axes.lines}
    np.testing.assert_array_equal(points["chains ± 2 standard errors"], run.mean)
    np.testing.assert_array_equal(points["exact"], exact)
    low, high = np.array([s[:, 1] for s in axes.collections[0].get_segments()]).T
    np.testing.assert_allclose(high - low, 4.0 * run.info.standard_error[0])


def test_entries_that_never_moved_are_marked():
    out = mg.sample(mg.problems.Knapsack([[1.0, 9.0]], [2.0]), np.ones(2), steps=50, chains=2)
    lines = {line.get_label(): line.get_xdata() for line in mg.plot.marginals(out).axes[0].lines}
    assert lines["never moved"].tolist() == [1]


def test_a_batch_and_a_list_of_problems_show_the_chosen_example():
    batch = mg.sample(PROBLEM, np.stack([THETA, -THETA]), steps=100)
    listed = mg.sample([PROBLEM, mg.problems.TopK(5, 2)], [THETA, np.zeros(5)], steps=100)
    assert mg.plot.marginals(batch, example=1).axes[0].lines[0].get_ydata().tolist() == batch.mean[1].tolist()
    assert len(mg.plot.marginals(listed, example=1).axes[0].lines[0].get_ydata()) == 5


def test_regret_of_several_runs_is_their_mean_in_a_band():
    figure = mg.plot.regret({"a": [[3.0, 1.0], [5.0, 2.0]], "b": [4.0, 4.0]}, x={"a": [0.5, 1.5]}, title="how it went")
    one, other = figure.axes[0].lines
    assert (one.get_xdata().tolist(), one.get_ydata().tolist()) == ([0.5, 1.5], [4.0, 1.5])
    assert (other.get_xdata().tolist(), other.get_ydata().tolist()) == ([0.0, 1.0], [4.0, 4.0])
    assert len(figure.axes[0].collections) == 1
    assert figure.get_suptitle() == "how it went"


def test_pictures_can_be_written(run, tmp_path):
    for name in ("trace", "acceptance", "marginals"):
        getattr(mg.plot, name)(run, path=tmp_path / f"{name}.png", title="a title")
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_a_notebook_shows_a_picture_without_pyplot(run):
    assert mg.plot.trace(run)._repr_png_().startswith(b"\x89PNG")
    assert mg.plot.acceptance(run)._repr_png_().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda run: mg.plot.trace(3), r"run must be a Sample, a Solution or an Info, got int\."),
        (lambda run: mg.plot.trace(run, example=1), r"example must be"),
        (lambda run: mg.plot.trace(run, axes=[1, 2]), r"axes must be two matplotlib axes"),
        (lambda run: mg.plot.trace(mg.sample(PROBLEM, THETA, steps=5, trace=0)), r"run must have a trace"),
        (lambda run: mg.plot.marginals(run.info), r"run must be a Sample, got Info\."),
        (lambda run: mg.plot.marginals(run, exact=[1.0]), r"exact must have shape \(6,\), got \(1,\)\."),
        (lambda run: mg.plot.marginals(run, names=["a"]), r"names must be 6 names, got 1\."),
        (lambda run: mg.plot.acceptance(run, axes=3), r"axes must be matplotlib axes, got 3\."),
        (lambda run: mg.plot.regret({}), r"curves must map names to regrets, got \{\}\."),
        (lambda run: mg.plot.regret({"a": [1.0, 2.0]}, x={"a": [1.0]}), r"x\['a'\] must be 2 numbers, got shape \(1,\)\."),
        (lambda run: mg.plot.regret({"a": [[[1.0]]]}), r"curves\['a'\] must be \(epochs,\) or \(runs, epochs\)"),
    ],
)
def test_what_cannot_be_drawn_is_one_sentence(run, call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call(run)
