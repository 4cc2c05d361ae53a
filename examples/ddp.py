"""Two processes train one model (DistributedDataParallel) and get what one gets: ``python examples/ddp.py --ranks 2``, or 1.

Features x predict θ = W x, by which 3 of 8 items are chosen; we see choices of a hidden W. Each example has an ``index``, its
number in the data set: on it depend its draws and its persistent chains, and so nothing depends on the rank that it comes to.
"""

import argparse
import tempfile

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

import movegrad as mg

EXAMPLES, BATCH, EPOCHS = 256, 64, 10


def data() -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(0)
    x, hidden = (torch.randn(n, 4, dtype=torch.float64, generator=random) for n in (EXAMPLES, 8))
    best = torch.topk(x @ hidden.T, 3).indices
    return x, torch.zeros(EXAMPLES, 8, dtype=torch.uint8).scatter(1, best, 1)


def train(rank: int, ranks: int, store: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    torch.manual_seed(1)  # the same model on every rank
    x, y = data()
    model = torch.nn.Linear(4, 8, bias=False, dtype=torch.float64)
    loss = mg.torch.FenchelYoungLoss(mg.torch.LocalSearchLayer(mg.problems.TopK(8, 3), steps=20), start="persistent")
    parallel = DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for epoch in range(EPOCHS):
        order = torch.randperm(EXAMPLES, generator=torch.Generator().manual_seed(epoch))
        for batch in order.split(BATCH):
            index = batch[rank::ranks]  # the part of this rank
            optimizer.zero_grad()
            loss(parallel(x[index]), y[index], index=index).backward()  # gradients are averaged over ranks
            optimizer.step()
        mg.torch.gather_persistent(loss)  # on all ranks: examples change ranks, and the checkpoint is to hold all chains
    if rank == 0:
        torch.save({"model": model.state_dict(), "loss": loss.state_dict()}, f"{store}.pt")
        right = (torch.topk(model(x), 3).indices.sort().values == y.nonzero()[:, 1].reshape(-1, 3)).all(1).double().mean()
        print(f"ranks {ranks}, chains kept {len(loss.start.ends)}, right choices {right:.3f}, |W| {model.weight.norm().item():.9f}")
    distributed.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    ranks = parser.parse_args().ranks
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(train, (ranks, f"{folder}/store"), ranks)
