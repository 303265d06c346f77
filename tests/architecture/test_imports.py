"""Imports go one way, {privacy, envs} -> algorithms -> platform -> papers, and each package has its own libraries."""

from __future__ import annotations

import ast
import platform
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

MAY_IMPORT = {
    "privacy": {"privacy"},
    "envs": {"envs"},
    "algorithms": {"privacy", "envs", "algorithms"},
    "platform": {"privacy", "envs", "algorithms", "platform"},
    "papers": {"privacy", "envs", "algorithms", "platform", "papers"},
}
OPENS_PAPERS = {"platform/commands/audit.py", "platform/commands/reproduce.py"}
"""The commands of platform/ that run what lies above it, in papers/."""
FOR_ALL = {"__version__", "atomic_files", "compiled", "sources", "plugins"}
"""Of package/: every code folder may import them."""
LIBRARIES = {
    "privacy": {"numpy", "scipy", "numba", "pydantic"},
    "envs": {"numpy", "numba", "gymnasium", "pettingzoo"},
    "algorithms": {"numpy", "scipy", "numba"},
    "algorithms/dppg": {"numpy", "numba", "gymnasium", "torch"},
    "algorithms/pgc": {"numpy", "scipy", "numba", "torch"},
    "algorithms/pgc_a3c": {"numpy", "scipy", "numba"},
    **{
        f"algorithms/{algorithm}/on_rllib": {"numpy", "gymnasium", "ray", "torch"}
        for algorithm in ("dppg", "pgc", "pgc_a3c")
    },
    "platform": {
        *("cloudpickle", "cyclopts", "jinja2", "matplotlib", "mlflow", "numba", "numpy", "pandas", "pyarrow"),
        *("pydantic", "pydantic_core", "ray", "scipy"),
        *("grpc", "gymnasium", "markupsafe", "sqlalchemy", "yaml"),
    },
    "platform/policies": {"gymnasium", "numpy", "ray", "torch"},
    "papers": {"numpy", "pandas", "scipy"},
}
ORDER = {
    "privacy": (
        *("base", "threat_models", "randomness", "accounting", "mechanisms", "counters"),
        *("noise_design", "journal", "ledger", "certificate", "schedule", "queries"),
        *("messages", "privatizer", "resumable", "designs", "verification", "audits"),
    ),
    "platform": (
        *("errors", "redaction", "program", "environment_variables", "environments", "users_needed", "plugins"),
        "configs",
        *("results", "policies", "reports"),
        *("audits", "tracking", "ray_token", "sweeps", "submission", "commands"),
        *("api", "deployment", "tuning", "command_line"),
        "submitted_job",
    ),
}
"""The parts of these folders, each of which may import those before it."""
# Importing these would load a second copy of our modules, or fail.
BARE = {"privacy", "envs", "algorithms"}


@cache
def imports(source: str) -> list[tuple[int, str, str]]:
    """Return (line, module, name) of every import; name is empty for `import module`."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            found += [(node.lineno, module, alias.name) for alias in node.names]
    return found


def python_files(folder: Path) -> list[Path]:
    """Return the folder's Python files in a fixed order."""
    return sorted(path for path in folder.rglob("*.py") if "__pycache__" not in path.parts)


def allowed_libraries(relative: Path) -> set[str]:
    """Return the libraries of the most special entry that covers this file."""
    covering = [entry for entry in LIBRARIES if relative.as_posix().startswith(f"{entry}/")]
    return LIBRARIES[max(covering, key=len)] | {"dprl"}


def test_imports_go_one_way(root: Path) -> None:
    """There are no forbidden imports between code folders."""
    complaints = []
    for room, known in MAY_IMPORT.items():
        for path in python_files(root / room):
            for line, module, name in imports(path.read_text()):
                parts = [*module.split("."), name]
                relative = path.relative_to(root).as_posix()
                allowed = known | FOR_ALL | ({"papers"} if relative in OPENS_PAPERS else set())
                if parts[0] == "dprl" and parts[1] not in allowed:
                    complaints.append(f"{relative}:{line}: {room} must not import dprl.{parts[1]}")
    assert complaints == []


def test_imports_within_a_room_go_one_way(root: Path) -> None:
    """There are no imports of a part of a folder by an earlier one, and parts that have no place in the order."""
    complaints = []
    paths = [path.relative_to(root) for room in ORDER for path in python_files(root / room)]
    for relative in paths:
        room, part = relative.with_suffix("").parts[:2]
        order = ORDER[room]
        if part == "__init__":
            continue
        if part not in order:
            complaints.append(f"{relative}: {part} has no place in ORDER")
            continue
        later = order[order.index(part) + 1 :]
        for line, module, name in imports((root / relative).read_text()):
            other = [*module.split("."), name, ""][2] if module.startswith(f"dprl.{room}") else ""
            if other in later:
                complaints.append(f"{relative}:{line}: {part} must not import {other}")
    assert complaints == []


def module_imports(root: Path) -> dict[str, set[str]]:
    """Return which of our modules each of them imports, anywhere in its file."""
    files = {path: path.relative_to(root).with_suffix("") for room in MAY_IMPORT for path in python_files(root / room)}
    names = {path: ".".join(("dprl", *relative.parts)).removesuffix(".__init__") for path, relative in files.items()}
    found: dict[str, set[str]] = {}
    for path, module in names.items():
        each = [{f"{source}.{name}", source} for _, source, name in imports(path.read_text())]
        # `from a import b` means the module a.b where there is one.
        chosen = (max(both & set(names.values()), key=len, default="") for both in each)
        found[module] = {other for other in chosen if other not in {"", module}}
    return found


def test_each_room_uses_its_own_libraries(root: Path) -> None:
    """There are no imports of a library that does not belong in the folder."""
    complaints = []
    for room in MAY_IMPORT:
        for path in python_files(root / room):
            relative = path.relative_to(root)
            for line, module, _ in imports(path.read_text()):
                library = module.split(".")[0]
                if library and library not in sys.stdlib_module_names | allowed_libraries(relative):
                    complaints.append(f"{relative}:{line}: {library} does not belong in {relative.parent}/")
    assert complaints == []


def test_no_bare_or_relative_imports(root: Path) -> None:
    """There are no relative imports, and imports that find our folders other than as dprl.X."""
    complaints = []
    for folder in (*MAY_IMPORT, "benchmarks", "tests"):
        for path in python_files(root / folder):
            for line, module, name in imports(path.read_text()):
                top = module.split(".")[0]
                ours = module.startswith("platform.") or (module == "platform" and name and not hasattr(platform, name))
                if top in BARE or ours or module.startswith("."):
                    complaints.append(f"{path.relative_to(root)}:{line}: write `from dprl.X import`, not {module}")
    assert complaints == []


def test_modules_import_each_other_in_one_direction(root: Path) -> None:
    list(TopologicalSorter(module_imports(root)).static_order())
