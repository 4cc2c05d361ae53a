"""A small program of a user, for ``pyright`` in strict mode (``make release-check``)."""

from typing import assert_type

import numpy as np
import torch
from matplotlib.figure import Figure

import movegrad as mg
from movegrad.diagnostics import Info


def learn(problem: mg.Problem, x: torch.Tensor, y: torch.Tensor) -> torch.nn.Linear:
    model = torch.nn.Linear(x.shape[-1], problem.size)
    layer = mg.torch.LocalSearchLayer(problem, steps=20, temperature=1.0, chains=2, start="random")
    loss = mg.torch.FenchelYoungLoss(layer, start="target")
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(3):
        optimizer.zero_grad()
        value = loss.forward(model(x), y, index=torch.arange(len(x)))
        assert_type(value, torch.Tensor)
        value.backward()
        optimizer.step()
    return model


def main() -> None:
    problem = mg.problems.TopK(10, k=3)
    report = mg.check(problem)
    assert_type(report.ok, bool)
    report.raise_if_wrong()
    scores = np.linspace(-2.0, 2.0, 10)
    out = mg.sample(problem, scores, steps=1000, chains=4, estimator="recycled", best=True)
    assert_type(out, mg.Sample)
    assert_type(out.info, Info)
    found = mg.solve(problem, scores, steps=1000)
    assert_type(found, mg.Solution)
    figure = mg.plot.trace(out)
    assert_type(figure, Figure)
    mg.sample([problem, problem], [scores, scores], steps=10, start="random")
    mg.sample(problem, torch.zeros(3, 10), steps=10, temperature=np.ones(3))
    mg.problems.Knapsack([[1.0, 2.0]], [2.0])
    figure.savefig("trace.png")
    model = learn(problem, torch.randn(8, 5), torch.from_numpy(np.tile(found.solution, (8, 1))))
    print(out.info, model.weight.shape, mg.get_threads())


if __name__ == "__main__":
    main()
