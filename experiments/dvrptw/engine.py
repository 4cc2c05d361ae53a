"""Tasks on several processes, or on a Ray cluster. Results are kept by task, so that a killed run goes on and nothing counts twice.

A task is a function of a module, "package.module:function", and arguments that JSON can hold; its result is such a value as well.
"""

import hashlib
import importlib
import importlib.util
import json
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from experiments.store import read_json, write_json
from experiments.version import version
from experiments.workers import pool

ATTEMPTS = 3  # of a task whose worker dies


class Task(NamedTuple):
    function: str
    arguments: dict[str, Any]

    @property
    def key(self) -> str:
        """Hash of what the result depends on: function, arguments, and the code that computes it."""
        content = json.dumps([self.function, self.arguments, self.code], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:20]

    @property
    def code(self) -> str:
        return version(self.function.split(":")[0])


class WorkerDied(RuntimeError):
    """A task whose workers died :data:`ATTEMPTS` times."""


@dataclass(frozen=True)
class Engine:
    """``kind`` is "processes" or "ray"; 0 ``workers``: in this process; ``address`` of a Ray cluster, else a local one."""

    kind: str = "processes"
    workers: int | None = None
    address: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in ("processes", "ray"):
            raise ValueError(f"engine must be processes or ray, got {self.kind!r}.")
        if self.workers is not None and self.workers < 0:
            raise ValueError(f"workers must be ≥ 0, got {self.workers}.")

    @property
    def count(self) -> int:
        return (os.cpu_count() or 1) if self.workers is None else self.workers

    def run(self, tasks: Sequence[Task], cache: Path | None = None, title: str = "tasks") -> list[Any]:
        """Results in the order of the tasks. With a ``cache`` folder, those of an earlier run are read and new ones kept."""
        from experiments.display import progress_bar  # here, so that workers start without Matplotlib

        results: dict[str, Any] = {}
        unique = {task.key: task for task in tasks}
        for key in unique:
            if cache is not None and (cache / f"{key}.json").exists():
                results[key] = read_json(cache / f"{key}.json", "result")["result"]
        missing = [task for key, task in unique.items() if key not in results]
        with progress_bar() if missing else nullcontext() as bar:
            line = bar.add_task(title, total=len(unique), completed=len(results)) if bar else None
            for task, result in self._compute(missing):
                results[task.key] = result
                if cache is not None:
                    content = {"function": task.function, "arguments": task.arguments, "code": task.code, "result": result}
                    write_json(cache / f"{task.key}.json", content)
                bar.advance(line)
        return [results[task.key] for task in tasks]

    def _compute(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, Any]]:
        """Each task with its result, in order of completion."""
        if not tasks:
            return
        if self.kind == "ray":
            yield from _on_ray(tasks, self.count, self.address)
        elif self.count == 0:
            yield from ((task, call(task)) for task in tasks)
        else:
            yield from _on_processes(tasks, min(self.count, len(tasks)))


def call(task: Task) -> Any:
    """Run a task here."""
    module, name = task.function.split(":")
    return getattr(importlib.import_module(module), name)(**task.arguments)


def _on_processes(tasks: Sequence[Task], workers: int) -> Iterator[tuple[Task, Any]]:
    """At most ``workers`` tasks are in flight, so that a death is blamed on few: after it the pool is new and they run again."""
    waiting, attempts = list(tasks), {task.key: 0 for task in tasks}
    while waiting:
        flying: dict[Future, Task] = {}
        with pool(workers, one_thread) as processes:
            try:
                while waiting or flying:
                    while waiting and len(flying) < workers:
                        task = waiting.pop(0)
                        flying[processes.submit(call, task)] = task
                    done, _ = wait(flying, return_when=FIRST_COMPLETED)
                    for future in done:
                        result = future.result()
                        yield flying.pop(future), result
            except BrokenProcessPool:
                waiting = [*_again(flying.values(), attempts), *waiting]
            except BaseException:
                processes.shutdown(wait=False, cancel_futures=True)
                raise


def _again(tasks: Any, attempts: dict[str, int]) -> list[Task]:
    """Tasks that were in flight when a worker died; raises when one has had its attempts."""
    for task in tasks:
        attempts[task.key] += 1
        if attempts[task.key] >= ATTEMPTS:
            raise WorkerDied(f"workers died in {task.function} {attempts[task.key]} times with arguments {task.arguments}.")
    return list(tasks)


def one_thread() -> None:
    """A worker computes on one core."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"


def _on_ray(tasks: Sequence[Task], workers: int, address: str | None) -> Iterator[tuple[Task, Any]]:
    """Ray starts a task again when its worker or node dies."""
    import ray

    started = not ray.is_initialized()
    if started:
        start_ray(workers, address)
    try:
        remote = ray.remote(max_retries=ATTEMPTS - 1, num_cpus=1)(call)
        flying = {remote.remote(task): task for task in tasks}
        while flying:
            (done,), _ = ray.wait(list(flying), num_returns=1)
            try:
                result = ray.get(done)
            except ray.exceptions.WorkerCrashedError as error:
                task = flying[done]
                raise WorkerDied(f"workers died in {task.function} {ATTEMPTS} times with arguments {task.arguments}.") from error
            except ray.exceptions.RayTaskError as error:
                raise error.as_instanceof_cause() from None
            yield flying.pop(done), result
    finally:
        if started:
            ray.shutdown()


LOOPBACK = "127.0.0.1"


def start_ray(workers: int, address: str | None = None) -> None:
    """Join the cluster at this address, or start a local one, which listens on this machine alone.

    Workers find the checkout and movegrad where this process does.
    """
    import ray

    checkout, package = Path(__file__).resolve().parents[2], importlib.util.find_spec("movegrad")
    paths = [str(checkout), *([str(Path(package.origin).parents[1])] if package and package.origin else [])]
    environment = {"env_vars": {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}}
    if address:
        ray.init(address=address, runtime_env=environment)
        return
    quiet = {"include_dashboard": False, "dashboard_host": LOOPBACK, "configure_logging": False, "log_to_driver": False}
    with _no_cluster():
        ray.init(num_cpus=max(workers, 1), _node_ip_address=LOOPBACK, runtime_env=environment, **quiet)


@contextmanager
def _no_cluster() -> Iterator[None]:
    """Keep Ray from listening on all interfaces: on Linux it replaces 127.0.0.1 by the machine's address unless clusters are off.

    That is an environment variable, which the processes of Ray read, and this process has read if Ray was imported before.
    """
    from ray._private import ray_constants

    name = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
    with mock.patch.dict(os.environ, {name: "0"}), mock.patch.object(ray_constants, "ENABLE_RAY_CLUSTER", False, create=True):
        yield
