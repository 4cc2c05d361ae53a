"""Mistakes that a type checker must find: an ignored error that is none is an error itself (``make release-check``)."""

import movegrad as mg

problem = mg.problems.TopK(10, k=3)
mg.sample(problem, None, steps=10)  # pyright: ignore[reportArgumentType]
mg.sample(problem, [0.0] * 10, steps="ten")  # pyright: ignore[reportArgumentType]
mg.sample(problem, [0.0] * 10, step=10)  # pyright: ignore[reportCallIssue]
mg.solve(3, [0.0] * 10, steps=10)  # pyright: ignore[reportArgumentType]
mg.torch.LocalSearchLayer(problem, stepps=20)  # pyright: ignore[reportCallIssue]
mg.plot.trace(3)  # pyright: ignore[reportArgumentType]
mg.plot.acceptance(mg.sample(problem, [0.0] * 10, steps=10), axes=3)  # pyright: ignore[reportArgumentType]
mg.Problem(3, (), [], 10)  # pyright: ignore[reportArgumentType]
mg.problems.Knapsack.batch([[[1.0]]], [[1.0]], bete=1.0)  # pyright: ignore[reportCallIssue]
mg.problems.BinaryProgram.from_model(3)  # pyright: ignore[reportArgumentType]
