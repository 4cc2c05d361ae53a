"""Tasks on processes and on Ray: kept, resumed, and done once when a worker dies."""

import json
import os
import signal
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path

import pytest

from experiments.dvrptw import engine as engine_module
from experiments.dvrptw.engine import Engine, Task, WorkerDied, start_ray
from experiments.version import version

HERE = "tests.test_dvrptw_engine"


def square(number: int, log: str) -> int:
    """A task that notes that it was done."""
    with Path(log).open("a") as file:
        file.write(f"{number}\n")
    return number * number


def victim(number: int, log: str, fatal: int, deaths: int) -> int:
    """As ``square``, but the worker of one number is killed before it is done, some times."""
    if number == fatal:
        for death in range(deaths):
            try:
                os.close(os.open(f"{log}.{death}", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            os.kill(os.getpid(), signal.SIGKILL)
    return square(number, log)


def wrong(number: int) -> int:
    raise ArithmeticError(f"no {number}")


def squares(log: Path, count: int = 6) -> list[Task]:
    return [Task(f"{HERE}:square", {"number": i, "log": str(log)}) for i in range(count)]


def done(log: Path) -> list[int]:
    return sorted(int(line) for line in log.read_text().split()) if log.exists() else []


ENGINES = [Engine(workers=0), Engine(workers=2), Engine("ray", 2)]


@pytest.fixture(scope="module")
def cluster():
    """A local Ray cluster for all tests of this file: each start takes seconds."""
    ray = pytest.importorskip("ray")
    start_ray(2)
    yield
    ray.shutdown()


def usable(request) -> Engine:
    if request.param.kind == "ray":
        request.getfixturevalue("cluster")
    return request.param


@pytest.fixture(params=ENGINES, ids=["here", "processes", "ray"])
def engine(request):
    return usable(request)


@pytest.fixture(params=ENGINES[1:], ids=["processes", "ray"])
def apart(request):
    """Engines with other processes than this one."""
    return usable(request)


pytestmark = pytest.mark.filterwarnings("ignore")  # Ray warns about sockets and its own future


def test_results_come_in_order_and_are_kept(engine, tmp_path):
    log, cache = tmp_path / "log", tmp_path / "cache"
    assert engine.run(squares(log, 3), cache) == [0, 1, 4]
    assert engine.run(squares(log, 5), cache) == [0, 1, 4, 9, 16], "what is kept is read, the rest computed"
    assert done(log) == [0, 1, 2, 3, 4], "nothing was done twice"
    assert {json.loads(p.read_text())["result"] for p in cache.glob("*.json")} == {0, 1, 4, 9, 16}


def test_equal_tasks_are_done_once(tmp_path):
    log = tmp_path / "log"
    assert Engine(workers=0).run(squares(log, 2) + squares(log, 2)) == [0, 1, 0, 1]
    assert done(log) == [0, 1]


def test_other_arguments_are_other_tasks(tmp_path):
    one, two = squares(tmp_path, 2)
    assert one.key != two.key
    assert one.key == Task(one.function, dict(reversed(one.arguments.items()))).key


def test_errors_reach_the_caller(engine):
    with pytest.raises(ArithmeticError, match="no 3"):
        engine.run([Task(f"{HERE}:wrong", {"number": 3})])


def test_a_dead_worker_is_replaced_and_nothing_is_lost_or_done_twice(apart, tmp_path):
    log, cache = tmp_path / "log", tmp_path / "cache"
    tasks = [Task(f"{HERE}:victim", {"number": i, "log": str(log), "fatal": 2, "deaths": 1}) for i in range(6)]
    assert apart.run(tasks, cache) == [0, 1, 4, 9, 16, 25]
    assert (tmp_path / "log.0").exists(), "a worker was killed"
    counted = [json.loads(p.read_text())["result"] for p in cache.glob("*.json")]
    assert sorted(counted) == [0, 1, 4, 9, 16, 25], "each result is kept once"


def test_results_of_other_code_are_kept_apart(tmp_path, monkeypatch):
    log, cache, engine = tmp_path / "log", tmp_path / "cache", Engine(workers=0)
    engine.run(squares(log, 2), cache)
    monkeypatch.setattr(engine_module, "version", lambda module: "another")
    engine.run(squares(log, 2), cache)
    assert done(log) == [0, 0, 1, 1]
    assert {json.loads(path.read_text())["code"] for path in cache.glob("*.json")} == {version(HERE), "another"}


def test_a_task_that_always_kills_its_worker_is_given_up(apart, tmp_path):
    log, cache = tmp_path / "log", tmp_path / "cache"
    tasks = [Task(f"{HERE}:victim", {"number": i, "log": str(log), "fatal": 0, "deaths": 99}) for i in range(1)]
    with pytest.raises(WorkerDied, match="victim 3 times"):
        apart.run(tasks, cache)
    assert not list(cache.glob("*.json"))


def test_a_local_ray_listens_on_this_machine_alone(cluster):
    import psutil  # comes with Ray

    family = [psutil.Process(), *psutil.Process().children(recursive=True)]
    connections = []
    for process in family:
        with suppress(psutil.NoSuchProcess):  # workers that an earlier test killed
            connections += [c for c in process.net_connections("tcp") if c.status == psutil.CONN_LISTEN]
    assert len(connections) >= 3, "at least the store of the cluster, its node and this process"
    addresses = {ip_address(c.laddr.ip.removeprefix("::ffff:")) for c in connections}
    assert all(address.is_loopback for address in addresses), addresses


def test_settings_are_checked():
    with pytest.raises(ValueError, match="engine must be processes or ray, got 'threads'"):
        Engine("threads")
    with pytest.raises(ValueError, match="workers must be ≥ 0, got -1"):
        Engine(workers=-1)
