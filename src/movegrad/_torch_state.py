"""What checkpoints hold of layers and losses: where persistent chains ended, here and on other ranks of distributed training."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, distributed, nn

from movegrad import start as starts
from movegrad._validate import instance_of, shown, why


def gather_persistent(module: nn.Module, group: Any = None) -> None:
    """Bring together where the persistent chains of all ranks ended; then each rank knows all of them.

    In distributed training each rank keeps the chains of its own examples, by their index. All ranks must call this at the same
    time, before one of them saves ``module.state_dict()``, and at the end of an epoch if examples change ranks: of the ends of an
    example that several ranks know, the latest one is kept. Every rank loads the whole checkpoint, whatever their number is then.
    Without distributed training it does nothing.

    Parameters
    ----------
    module : nn.Module
        With layers and losses of movegrad in it, the same ones on all ranks.
    group : process group, optional
        Of ``torch.distributed``; all ranks by default.

    Examples
    --------
    >>> import torch
    >>> import movegrad as mg
    >>> layer = mg.torch.LocalSearchLayer(mg.problems.TopK(5, 2), steps=10, start="persistent")
    >>> _ = layer(torch.zeros(3, 5), index=[4, 5, 6])
    >>> mg.torch.gather_persistent(layer)  # on all ranks
    >>> sorted(layer.get_extra_state()["ends"])
    [4, 5, 6]
    """
    if not distributed.is_available() or not distributed.is_initialized():
        instance_of(module, "module", nn.Module)
        return
    memories = list(_memories(instance_of(module, "module", nn.Module)))
    own = [({k: _numbers(v) for k, v in m.ends.items()}, m.times, m.now) for m in memories]
    found: list[Any] = [None] * distributed.get_world_size(group)
    distributed.all_gather_object(found, own, group=group)
    if len({len(each) for each in found}) > 1:
        raise ValueError(f"module must have as many persistent starts on all ranks, got {[len(each) for each in found]}.")
    for memory, parts in zip(memories, zip(*found, strict=True), strict=True):
        for ends, times, _ in parts:
            for index, rows in ends.items():
                if index not in memory.ends or times.get(index, 0) > memory.times.get(index, 0):
                    memory.keep(index, rows, times.get(index, 0))
        memory.now = max(now for _, _, now in parts)


def _memories(module: nn.Module) -> Iterator[starts.Persistent]:
    """The persistent starts of the layers and losses in a module, each once."""
    seen: set[int] = set()
    for part in module.modules():
        for start in (vars(part).get("start"), vars(part).get("persistent")):
            memory = starts.memory(start)
            if isinstance(memory, starts.Persistent) and id(memory) not in seen:
                seen.add(id(memory))
                yield memory


def _numbers(rows: Any, name: str = "ends") -> np.ndarray:
    try:
        return rows if isinstance(rows, np.ndarray) else torch.as_tensor(rows).detach().cpu().numpy()
    except (RuntimeError, TypeError) as error:  # of sparse or quantized tensors, and the like
        raise ValueError(f"{name} must hold dense tensors of integers, got others ({why(error)}).") from None


def ends_of(start: Any) -> dict[int, Tensor] | None:
    """Where persistent chains ended, as tensors: such a state loads without unpickling code."""
    memory = starts.memory(start)
    if not isinstance(memory, starts.Persistent):
        return None
    return {k: torch.tensor(v) if isinstance(v, np.ndarray) else torch.as_tensor(v) for k, v in memory.ends.items()}


def saved(state: Any, module: nn.Module, *names: str) -> dict[str, Any]:
    """What a state_dict holds for a module, if it was written by one of its class."""
    if not isinstance(state, dict) or not set(names) <= set(state):
        found = f"a dict of {list(map(str, state))}" if isinstance(state, dict) else f"an object of {type(state).__name__}"
        raise ValueError(
            f"state_dict must hold {' and '.join(names)} for a {type(module).__name__}, got {found:.80}: load a checkpoint that is "
            "neither damaged nor of another module."
        )
    return state


def _are_ends(ends: Any) -> bool:
    return isinstance(ends, dict) and all(isinstance(k, int) and isinstance(v, Tensor) and v.ndim == 2 for k, v in ends.items())


def set_ends(start: Any, ends: dict[int, Tensor] | None, chains: int, name: str) -> None:
    if ends is not None and not _are_ends(ends):
        raise ValueError(
            f"{name} must be None or map keys of examples to tensors (chains, size), got {shown(ends)}: load a checkpoint that is "
            "not damaged."
        )
    memory = starts.memory(start)
    if isinstance(memory, starts.Persistent) != (ends is not None):
        state = "that of persistent chains" if ends is not None else "without persistent chains"
        raise ValueError(f"start must be the one that the loaded state was saved with, got a state {state}.")
    if ends is not None:
        for rows in ends.values():
            if len(rows) != chains:
                raise ValueError(f"chains must be {len(rows)} as in the loaded state, got {chains}.")
        rows_of = [v.clone() if v.is_cuda else _numbers(v, name) for v in ends.values()]
        memory.forget()
        for index, kept in zip(ends, rows_of, strict=True):
            memory.keep(index, kept)
