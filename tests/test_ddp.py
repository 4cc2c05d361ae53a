"""Distributed training on two processes of one machine (gloo): who draws what, gradients, and chains that no rank loses."""

import os
import sys
import warnings
from functools import partial

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import movegrad as mg  # noqa: E402
from movegrad.problems import TopK  # noqa: E402
from movegrad.torch import FenchelYoungLoss, LocalSearchLayer, gather_persistent  # noqa: E402

pytestmark = [
    pytest.mark.skipif(not torch.distributed.is_available(), reason="needs torch.distributed"),
    pytest.mark.filterwarnings("ignore:::torch"),
]
RANKS, EXAMPLES = 2, 64
TOP = TopK(8, 3)
Y = torch.from_numpy(mg.exact.sample(TOP, np.linspace(-1, 1, 8), EXAMPLES))
X = torch.from_numpy(np.random.default_rng(0).normal(size=(EXAMPLES, 4)))


def work(rank, ranks, folder):
    """A process of the group: everything that is asked of it below, in one go, since processes are slow to start."""
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", module="torch")
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks)
    mine = torch.arange(rank, EXAMPLES, ranks)
    found = {
        "default": LocalSearchLayer(TOP, steps=20)(torch.zeros(4, 8)),
        "indexed": LocalSearchLayer(TOP, steps=20)(torch.zeros(4, 8), index=range(4)),
        "means": LocalSearchLayer(TOP, steps=20)(X[mine] @ weights(), index=mine),
        "gradient": trained(mine, ranks),
        "resumed": persistent(rank, ranks, folder),
        "exchanged": exchanged(rank),
        "unconditional": unconditional(),
    }
    torch.save(found, f"{folder}/{rank}.pt")
    torch.distributed.barrier()  # nobody leaves while the other one still talks
    torch.distributed.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)  # all is on disk: threads of Gloo that still run at the end of the interpreter abort it, seen on a busy machine


def weights():
    return torch.linspace(-1, 1, 32, dtype=torch.float64).reshape(4, 8)


def trained(mine, ranks):
    """The gradient of a linear model after a batch, with DDP where there are several ranks."""
    model = torch.nn.Linear(4, 8, bias=False, dtype=torch.float64)
    model.weight.data = weights().T.clone()
    loss = FenchelYoungLoss(LocalSearchLayer(TOP, steps=20, seed=1))
    wrapped = torch.nn.parallel.DistributedDataParallel(model) if ranks > 1 else model
    loss(wrapped(X[mine]), Y[mine], index=mine).backward()
    return model.weight.grad


def layer_of(folder, state):
    layer = LocalSearchLayer(TOP, steps=20, chains=2, start="persistent")
    if state is not None:
        layer.load_state_dict(torch.load(f"{folder}/{state}.pt", weights_only=True))
    return layer


def epoch(layer, rank, ranks, number):
    """All examples once, in batches of a rank; shuffled, so that examples change ranks."""
    order = np.random.default_rng(number).permutation(EXAMPLES)
    for batch in np.split(order, 4):
        mine = batch[rank::ranks]
        layer(X[mine] @ weights(), index=mine)
    gather_persistent(layer)


def persistent(rank, ranks, folder):
    """An epoch on two ranks; another one, if there is a checkpoint of one rank. Returns all ends."""
    known = (folder / "one.pt").exists()
    layer = layer_of(folder, "one" if known else None)
    epoch(layer, rank, ranks, 2 if known else 0)
    if rank == 0:
        torch.save(layer.state_dict(), folder / "two.pt")
    return layer.start.ends


def exchanged(rank):
    """Both ranks had example 7; rank 1 had it last."""
    layer = LocalSearchLayer(TOP, steps=20, start="persistent")
    for step in range(3):
        layer(torch.zeros(1, 8), index=[7 if step == rank else 10 * rank + step])
    own = layer.start.ends[7]
    gather_persistent(torch.nn.ModuleList([layer]))
    return {"own": own, "kept": layer.start.ends[7], "known": sorted(layer.start.ends)}


def unconditional():
    """One θ for many observations: each rank has a chain of its own."""
    loss = FenchelYoungLoss(LocalSearchLayer(TOP, steps=20))
    loss(torch.zeros(8), Y)
    gather_persistent(loss)
    return sorted(loss.persistent.ends)


def spawn(folder):
    (folder / "store").unlink(missing_ok=True)
    torch.multiprocessing.spawn(work, (RANKS, folder), RANKS)
    return [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(RANKS)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("ranks")


@pytest.fixture(scope="module")
def ranks(folder):
    return spawn(folder)


def test_ranks_draw_different_numbers_unless_an_index_says_who_they_are(ranks):
    default = torch.cat([found["default"] for found in ranks])
    assert len(torch.unique(default, dim=0)) == 8
    assert torch.equal(default[:4], LocalSearchLayer(TOP, steps=20)(torch.zeros(4, 8)))  # rank 0 is what one process is
    assert torch.equal(ranks[0]["indexed"], ranks[1]["indexed"])


def test_a_batch_on_one_rank_is_that_of_two(ranks):
    """With indices of the whole data set: means bit for bit, the gradient up to the rounding of the sum over ranks."""
    whole = LocalSearchLayer(TOP, steps=20)(X @ weights(), index=range(EXAMPLES))
    for rank, found in enumerate(ranks):
        assert torch.equal(found["means"], whole[rank::RANKS])
        torch.testing.assert_close(found["gradient"], trained(torch.arange(EXAMPLES), 1), rtol=1e-12, atol=1e-12)


def test_of_two_ends_the_later_one_is_kept(ranks):
    for found in ranks:
        exchange = found["exchanged"]
        assert exchange["known"] == [1, 2, 7, 10, 12]
        assert (exchange["kept"] == ranks[1]["exchanged"]["own"]).all()


def test_each_rank_has_chains_of_its_own_where_one_theta_has_many_observations(ranks):
    assert [found["unconditional"] for found in ranks] == [[0, 1 << 40]] * 2


def test_persistent_chains_survive_from_two_ranks_to_one_to_two(ranks, folder):
    """Every epoch continues all chains of the one before, as one process would that never stopped."""
    alone, ends = layer_of(folder, None), {}
    for number in range(3):
        epoch(alone, 0, 1, number)
        ends[number] = dict(alone.start.ends)
    assert_same(ranks[0]["resumed"], ends[0])
    assert_same(ranks[1]["resumed"], ends[0])
    one = layer_of(folder, "two")
    epoch(one, 0, 1, 1)
    assert_same(one.start.ends, ends[1])
    torch.save(one.state_dict(), folder / "one.pt")
    for found in spawn(folder):
        assert_same(found["resumed"], ends[2])


def assert_same(found, wanted):
    assert sorted(found) == sorted(wanted) == list(range(EXAMPLES))
    assert all((found[i] == wanted[i]).all() for i in wanted)


# --- one process ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [LocalSearchLayer, partial(mg.torch.LocalSearchLayer, chains=2)])
def test_persistent_chains_of_batches_without_an_index_are_warned_of_once(make):
    layer = make(TOP, steps=5, start="persistent")
    layer(torch.zeros(3, 8))
    with pytest.warns(UserWarning, match=r"^index should be given where persistent chains meet batches.*give index, .*\.$"):
        layer(torch.zeros(3, 8))
    layer(torch.zeros(3, 8))


def test_nothing_is_warned_of_where_chains_are_those_of_their_examples():
    layer = LocalSearchLayer(TOP, steps=5, start="persistent")
    loss = FenchelYoungLoss(layer)
    for _ in range(3):
        layer(torch.zeros(8))
        layer(torch.zeros(3, 8), index=[5, 6, 7])
        loss(torch.zeros(8), Y)
        loss(torch.zeros(3, 8), Y[:3])


def test_without_ranks_there_is_nothing_to_gather():
    layer = LocalSearchLayer(TOP, steps=5, start="persistent")
    layer(torch.zeros(3, 8))
    gather_persistent(layer)
    assert sorted(layer.start.ends) == [0, 1, 2]
    with pytest.raises(ValueError, match=r"module must be .*, got "):
        gather_persistent("layer")
