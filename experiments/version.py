"""Which code made a result: a fingerprint of all that it was computed with, so that no two versions are ever mixed."""

import ast
import hashlib
import importlib
import sys
from functools import cache
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parent
# They keep and show, compute nothing.
KEEPERS = {f"experiments.{name}" for name in ("display", "framework", "store", "verdicts", "version", "workers")}
PACKAGES = ("gurobipy", "highspy", "numba", "numpy", "pyepo", "pyvrp", "torch", "torch_geometric")
UNKNOWN = "before versions were kept"


@cache
def version(module: str) -> str:
    """Of movegrad, with a hash of its files, of the packages used, and of this module with what it imports of experiments."""
    import movegrad as mg  # here, so that worker processes start without it

    own, package = modules(module), Path(mg.__file__).parent
    files = own | {path.relative_to(package).as_posix(): path for path in package.rglob("*.py")}
    used = {word.partition(".")[0] for path in own.values() for word in imports(path)} | {"numba", "numpy"}
    digest = hashlib.sha256()
    for name, path in sorted(files.items()):
        digest.update(name.encode() + path.read_bytes().replace(b"\r\n", b"\n"))
    for name in sorted(used & set(PACKAGES)):
        digest.update(f"{name} {installed(name)}".encode())
    return f"{mg.__version__}+{digest.hexdigest()[:12]}"


def modules(name: str) -> dict[str, Path]:
    """Files by module: this one and, of experiments, whatever it imports, directly or not."""
    found: dict[str, Path] = {}
    waiting = [name]
    while waiting:
        name = waiting.pop()
        path = located(name)
        if path is not None and name not in found and name not in KEEPERS:
            found[name] = path
            waiting += [word for word in imports(path) if word.startswith("experiments.")]
    return found


def located(name: str) -> Path | None:
    """The file of a module; None for other names of experiments."""
    if name.startswith("experiments."):
        path = ROOT.joinpath(*name.split(".")[1:])
        return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.exists()), None)
    module = sys.modules.get(name) or importlib.import_module(name)
    return Path(str(module.__file__))


def imports(path: Path) -> list[str]:
    """What a file imports anywhere: modules, and what it takes from them."""
    found: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return found


def installed(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "none"
