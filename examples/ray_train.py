"""The same with Ray Train: one of two workers is killed, and the run goes on from its checkpoint. Needs ``ray[train]``.

Each epoch ends with a checkpoint that holds the model, the optimizer and the chains of all ranks. Ray starts the workers anew when
one dies, and they load the last one.
"""

import argparse
import os
import tempfile
from pathlib import Path

import ray.train
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model

import movegrad as mg

EXAMPLES, BATCH, EPOCHS, KILLED_IN = 256, 64, 4, 2


def train(config: dict) -> None:
    context, random = ray.train.get_context(), torch.Generator().manual_seed(0)
    rank, ranks = context.get_world_rank(), context.get_world_size()
    x, hidden = (torch.randn(n, 4, generator=random) for n in (EXAMPLES, 8))
    y = torch.zeros(EXAMPLES, 8, dtype=torch.uint8).scatter(1, torch.topk(x @ hidden.T, 3).indices, 1)
    torch.manual_seed(1)
    model = torch.nn.Linear(4, 8)
    loss = mg.torch.FenchelYoungLoss(mg.torch.LocalSearchLayer(mg.problems.TopK(8, 3), steps=20), start="persistent")
    parallel, optimizer = prepare_model(model), torch.optim.Adam(model.parameters(), lr=0.1)
    parts, first = {"model": model, "loss": loss, "optimizer": optimizer}, 0
    if (checkpoint := ray.train.get_checkpoint()) is not None:
        with checkpoint.as_directory() as folder:
            saved = torch.load(f"{folder}/state.pt", weights_only=True)
        first = saved["epochs"]
        for name, part in parts.items():
            part.load_state_dict(saved[name])
    for epoch in range(first, EPOCHS):
        for batch in torch.randperm(EXAMPLES, generator=torch.Generator().manual_seed(epoch)).split(BATCH):
            index = batch[rank::ranks]
            optimizer.zero_grad()
            loss(parallel(x[index]), y[index], index=index).backward()
            optimizer.step()
        if epoch == KILLED_IN and rank == 1 and not (mark := Path(config["mark"])).exists():
            mark.touch()
            os._exit(1)  # a machine that goes away
        mg.torch.gather_persistent(loss)  # on all ranks
        numbers = {"epochs": epoch + 1, "first": first, "chains": len(loss.start.ends), "norm": model.weight.norm().item()}
        with tempfile.TemporaryDirectory() as folder:
            if rank == 0:
                torch.save({"epochs": epoch + 1} | {name: part.state_dict() for name, part in parts.items()}, f"{folder}/state.pt")
            ray.train.report(numbers, checkpoint=Checkpoint.from_directory(folder) if rank == 0 else None)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--unharmed", action="store_true", help="kill no worker, to see the same numbers")
    unharmed = parser.parse_args().unharmed
    with tempfile.TemporaryDirectory() as folder:
        if unharmed:
            Path(folder, "killed").touch()
        done = TorchTrainer(
            train, train_loop_config={"mark": f"{folder}/killed"}, scaling_config=ScalingConfig(num_workers=2),
            run_config=RunConfig(storage_path=folder, name="run", failure_config=FailureConfig(max_failures=1)),
        ).fit().metrics  # fmt: skip
        print(f"epochs {done['epochs']}, resumed at {done['first']}, chains kept {done['chains']}, |W| {done['norm']:.6f}")
