"""Functions of a move or a problem as people get them wrong: what Numba says about them must become a sentence."""

import numpy as np

import movegrad as mg


def helper(x):
    return x + 1  # not jitted


@mg.jit
def propose_bare(data, state, rng):
    return mg.integer(rng, len(state.y))


@mg.jit
def propose_nothing(data, state, rng):
    mg.integer(rng, len(state.y))


@mg.jit
def propose_three(data, state, rng):
    return mg.integer(rng, len(state.y)), 0.0, 1.0


@mg.jit
def propose_text(data, state, rng):
    return "flip", 0.0


@mg.jit
def propose_text_ratio(data, state, rng):
    return 0, "none"


@mg.jit
def propose_none_ratio(data, state, rng):
    return 0, None


@mg.jit
def propose_array(data, state, rng):
    return np.array([1, 2]), 0.0


@mg.jit
def propose_list(data, state, rng):
    return [mg.integer(rng, len(state.y)), 0.0]


@mg.jit
def propose_sometimes(data, state, rng):
    if mg.integer(rng, 2) == 0:
        return 1, 0.0


@mg.jit
def propose_two_kinds(data, state, rng):
    if mg.integer(rng, 2) == 0:
        return 1, 0.0
    return (1, 2), 0.0


@mg.jit
def propose_python_random(data, state, rng):
    return rng.integers(len(state.y)), 0.0


@mg.jit
def propose_unknown_name(data, state, rng):
    return nothing_of_this_name(state), 0.0  # noqa: F821


@mg.jit
def propose_plain_helper(data, state, rng):
    return helper(mg.integer(rng, 3)), 0.0


@mg.jit
def propose_wrong_draw(data, state, rng):
    return mg.integer(len(state.y), rng), 0.0


@mg.jit
def change_nothing(data, state, move, m):
    1 - state.y[move]


@mg.jit
def change_bare(data, state, move, m):
    return 1 - 2 * np.int64(state.y[move])


@mg.jit
def change_three(data, state, move, m):
    return move, 1, 2


@mg.jit
def change_float_index(data, state, move, m):
    return 1.0 * move, 1


@mg.jit
def change_text(data, state, move, m):
    return "a", 1


@mg.jit
def change_none(data, state, move, m):
    return move, None


@mg.jit
def apply_wrong_field(data, state, move):
    state.x[move] = 1 - state.x[move]


@mg.jit
def apply_assigns(data, state, move):
    state.y = 1 - state.y


@mg.jit
def apply_text(data, state, move):
    state.y[move] = "a"


@mg.jit
def apply_unpacks(data, state, move):
    i, j = move
    state.y[i], state.y[j] = state.y[j], state.y[i]


@mg.jit
def changes_nothing(data, state, move):
    pass


@mg.jit
def changes_float(data, state, move):
    return 1.0


@mg.jit
def changes_tuple(data, state, move):
    return 1, 2


@mg.jit
def gain_nothing(data, state, move):
    pass


@mg.jit
def gain_tuple(data, state, move):
    return 0.0, 1.0


@mg.jit
def gain_text(data, state, move):
    return "much"


@mg.jit
def gain_complex(data, state, move):
    return 1j * move


@mg.jit
def gain_allocates(data, state, move):
    return np.zeros(3).sum()


@mg.jit
def gain_raises(data, state, move):
    raise ValueError("no")


@mg.jit
def gain_prints(data, state, move):
    print(move)
    return 0.0


@mg.jit
def gain_dict(data, state, move):
    return {1: 2.0}[1]


@mg.jit
def gain_closure(data, state, move):
    return sum([state.y[i] for i in range(3)])


@mg.jit
def gain_asserts(data, state, move):
    assert move >= 0
    return 0.0


@mg.jit
def gain_tries(data, state, move):
    try:
        return 1.0 / move
    except Exception:
        return 0.0


@mg.jit
def gain_recursive(data, state, move):
    return gain_recursive(data, state, move)


@mg.jit
def gain_numpy(data, state, move):
    return np.linalg.svd(state.y)


@mg.jit
def feasible_nothing(data, state, move):
    pass


@mg.jit
def feasible_text(data, state, move):
    return "yes"


@mg.jit
def feasible_array(data, state, move):
    return state.y > 0


@mg.jit
def statistic_returns(data, solution, out):
    return solution


@mg.jit
def statistic_rebinds(data, solution, out):
    out = solution  # noqa: F841


@mg.jit
def statistic_text(data, solution, out):
    out[0] = "a"


@mg.jit
def phi_nothing(data, solution):
    pass


@mg.jit
def phi_array(data, solution):
    return solution


@mg.jit
def phi_text(data, solution):
    return "a"


@mg.jit
def contains_nothing(data, solution):
    pass


@mg.jit
def contains_array(data, solution):
    return solution >= 0


@mg.jit
def random_draws_wrong(data, rng, solution):
    solution[0] = rng.random()


@mg.jit
def random_wrong_field(data, rng, solution):
    solution.y[0] = 1


@mg.jit
def prepare_wrong_field(data, guide, temperature, state):
    state.place[0] = 1


@mg.jit
def prepare_wrong_data(data, guide, temperature, state):
    state.y[0] = data.weights[0]


WRONG: dict[str, dict[str, object]] = {
    part: {name: f for name, f in list(globals().items()) if name.startswith(f"{part}_")}
    for part in ("propose", "change", "apply", "changes", "gain", "feasible", "statistic", "phi", "contains", "random", "prepare")
}
