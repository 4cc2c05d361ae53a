"""Examples of training at scale, on two processes of one machine: as on one, and after a worker was killed."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

ROOT = Path(__file__).parents[1]


def run(name, *options):
    """What an example prints last, as a dict of numbers."""
    command = [sys.executable, "-W", "ignore", ROOT / "examples" / f"{name}.py", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    line = next(line for line in done.stdout.splitlines() if "chains kept" in line)
    return {word.strip(): float(number) for word, number in re.findall(r"([^,\d]+) ([\d.]+)", line)}


def test_two_processes_train_what_one_trains():
    one, two = run("ddp", "--ranks", "1"), run("ddp", "--ranks", "2")
    assert two.pop("ranks") == one.pop("ranks") + 1
    assert one == two
    assert one["chains kept"] == 256
    assert one["right choices"] > 0.7


@pytest.mark.slow  # as for the next one: that of DDP makes the claim, other engines are more cases of it
def test_lightning_goes_on_from_the_checkpoint_of_two_processes_on_one():
    pytest.importorskip("lightning", reason="needs lightning: pip install --group scale")
    found = run("with_lightning")
    assert found["chains kept"] == 256
    assert found["calls"] == 4 * 4 + 4 * 8  # 4 epochs of 4 batches on each of two ranks, and 4 more of 8 on one
    assert found["right choices"] > 0.7


@pytest.mark.slow
@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("ray", "pyarrow", "tensorboardX")),
    reason="needs ray[train]: pip install --group scale",
)
def test_ray_goes_on_after_a_worker_was_killed_with_the_numbers_of_a_run_unharmed():
    killed, unharmed = run("ray_train"), run("ray_train", "--unharmed")
    assert killed["epochs"] == unharmed["epochs"] == 4
    assert killed["resumed at"] > 0
    assert unharmed["resumed at"] == 0
    assert killed["chains kept"] == unharmed["chains kept"] == 256
    assert killed["|W|"] == unharmed["|W|"]
