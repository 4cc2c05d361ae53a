"""Calls of a layer that ``torch.utils.checkpoint`` makes again in the backward pass: they get the runs of the forward pass.

A checkpointed segment keeps no tensors: its function is called once more when gradients are wanted. A layer that drew anew would
then have gradients of other numbers than its output. PyTorch restores its own generators only, and does not say that a call is
such a one; but the function that makes it is on the stack, and holds what stands for the segment in both passes.
"""

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import torch
from torch.utils import checkpoint

_FILE = checkpoint.__file__
Replay = tuple[Any, "Tape"]  # the backward pass, and the tape that is played in it


class Tape:
    """Runs of the layers of a segment, in the order of their calls."""

    def __init__(self) -> None:
        self.runs: list[tuple[Any, Any]] = []  # (layer, its run)
        self._played: dict[Any, int] = {}  # in each backward pass

    def play(self, layer: Any, backward: Any) -> Any:
        """The next run in a backward pass."""
        at = self._played.get(backward, 0)
        self._played[backward] = at + 1
        if at >= len(self.runs) or self.runs[at][0] is not layer:
            raise RuntimeError("a checkpointed function must call the same layers in the same order when it is run again.")
        return self.runs[at][1]


def once(layer: Any, run: Callable[[], Any]) -> Any:
    """What ``run`` gives; what it gave in the forward pass, if the call is made again."""
    recording, replay = tapes()
    done = replay[1].play(layer, replay[0]) if replay is not None else run()
    for tape in recording:
        tape.runs.append((layer, done))
    return done


def tapes() -> tuple[list[Tape], Replay | None]:
    """The tapes that are to record a call, and the one that has it already, if the call is made again."""
    recording: list[Tape] = []
    for segment, backward in _segments():
        if not hasattr(segment, "_movegrad"):
            segment._movegrad = Tape()
        tape = segment._movegrad
        if backward is not None:
            return recording, (backward, tape)  # segments around it are not run by it
        recording.append(tape)
    return recording, None


def in_backward() -> bool:
    """Is this called in a backward pass?"""
    return torch._C._current_graph_task_id() != -1


def _segments() -> Iterator[tuple[Any, Any]]:
    """(what stands for the segment, its backward pass or None) of the checkpointed segments that are being run, innermost first."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_filename == _FILE:
            name, scope = frame.f_code.co_name, frame.f_locals
            if name == "forward" and "ctx" in scope:  # use_reentrant=True
                yield scope["ctx"], None
            elif name == "backward" and "ctx" in scope:
                yield scope["ctx"], torch._C._current_graph_task_id()
            elif name == "checkpoint" and getattr(scope.get("gen"), "gi_frame", None) is not None:  # use_reentrant=False
                yield scope["gen"].gi_frame.f_locals["new_frame"], None
            elif name == "unpack_hook" and "gid" in scope:
                yield scope["frame"], scope["gid"]
        frame = frame.f_back
