"""The same with Lightning: two processes, then one that goes on from their checkpoint. Needs ``pip install lightning``.

The data set gives each example its number, which the loss takes as ``index``. Chains of all ranks are gathered at the end of an
epoch, before Lightning writes its checkpoint.
"""

import argparse
import tempfile

import lightning as L  # noqa: N812 - as its users write it
import torch

import movegrad as mg

EXAMPLES = 256


def data() -> torch.utils.data.DataLoader:
    random = torch.Generator().manual_seed(0)
    x, hidden = (torch.randn(n, 4, generator=random) for n in (EXAMPLES, 8))
    y = torch.zeros(EXAMPLES, 8, dtype=torch.uint8).scatter(1, torch.topk(x @ hidden.T, 3).indices, 1)
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y, torch.arange(EXAMPLES)), batch_size=32, shuffle=True)


class Choices(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.model = torch.nn.Linear(4, 8)
        layer = mg.torch.LocalSearchLayer(mg.problems.TopK(8, 3), steps=20)
        self.loss = mg.torch.FenchelYoungLoss(layer, start="persistent")

    def training_step(self, batch, _):
        x, y, index = batch
        return self.loss(self.model(x), y, index=index)

    def on_train_epoch_end(self) -> None:
        mg.torch.gather_persistent(self)  # on all ranks

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.1)


def fit(devices: int, epochs: int, folder: str, resume: str | None = None) -> tuple[Choices, str]:
    """Returns the module and the path of the checkpoint that Lightning wrote after the last epoch."""
    L.seed_everything(1, verbose=False)
    trainer = L.Trainer(
        accelerator="cpu", devices=devices, strategy="ddp_spawn" if devices > 1 else "auto", max_epochs=epochs,
        default_root_dir=folder, logger=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    module = Choices()
    trainer.fit(module, data(), ckpt_path=resume)
    return module, trainer.checkpoint_callback.best_model_path


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        _, checkpoint = fit(2, 4, folder)
        module, _ = fit(1, 8, folder, checkpoint)
    x, y, _ = data().dataset.tensors
    right = (torch.topk(module.model(x), 3).indices.sort().values == y.nonzero()[:, 1].reshape(-1, 3)).all(1).double().mean()
    print(f"chains kept {len(module.loss.start.ends)}, calls {module.loss.layer.calls}, right choices {right:.3f}")


if __name__ == "__main__":
    main()
