"""Folders, names and links: everything is packaged, no name hides another, and every link leads to a file."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import yaml

from tests.architecture.test_code import TOP_FOLDERS

WITHOUT_ROOM = {"dprl", "dprl.tune_configs", "dprl.extending"}
"""Packages outside the code folders: `dprl` itself, in package/, and the configs."""
DRAWERS = {"utils", "util", "common", "helpers", "helper", "misc", "shared"}
IMPORTED_AS = {"pyyaml": "yaml", "dp-accounting": "dp_accounting", "grpcio": "grpc"}
PART_OF = {"pydantic_core": "pydantic"}
LOADED_BY_NAME = {"pyarrow"}  # pandas' engine for Parquet
# Not dependencies yet, but wrapped here or soon to be.
MORE_LIBRARIES = {"torch", "rllib", "tune", "pettingzoo", "gym", "rlberry", "opacus"}


def code_folders(root: Path) -> list[Path]:
    """Return every folder below the code folders that holds Python files, relative to the root."""
    files = (path for top in TOP_FOLDERS for path in (root / top).rglob("*.py"))
    return sorted({path.parent.relative_to(root) for path in files if "__pycache__" not in path.parts})


def modules(root: Path) -> list[Path]:
    """Return every module and subfolder of the code folders (not those folders themselves), relative to the root."""
    files = {path.relative_to(root) for top in TOP_FOLDERS for path in (root / top).rglob("*.py")}
    folders = {folder for folder in code_folders(root) if len(folder.parts) > 1}
    return sorted(path for path in files | folders if path.stem not in {"__init__", "__main__"})


def packages(root: Path) -> set[str]:
    """Return the packages that pyproject.toml lists."""
    project = tomllib.loads((root / "pyproject.toml").read_text())
    return set(project["tool"]["setuptools"]["packages"])


def test_every_code_folder_is_packaged(root: Path) -> None:
    """There are no code folders that are not packaged and packages that do not exist."""
    present = {f"dprl.{'.'.join(folder.parts)}" for folder in code_folders(root)}
    listed = packages(root) - WITHOUT_ROOM
    unlisted = [f"pyproject.toml does not list {name}" for name in sorted(present - listed)]
    assert unlisted + [f"pyproject.toml lists {name}, which has no code" for name in sorted(listed - present)] == []


def test_nothing_hides_platform_or_dprl(root: Path) -> None:
    """There are no files and folders that would hide the standard library's `platform` or the installed `dprl`."""
    complaints = []
    if (root / "platform" / "__init__.py").exists():
        complaints.append("platform/__init__.py hides the standard library's platform: remove it")
    if (root / "dprl").exists() or (root / "dprl.py").exists():
        complaints.append("dprl at the root hides the installed package: remove it")
    regular = (folder for folder in code_folders(root) if folder != Path("platform"))
    missing = (folder for folder in regular if not (root / folder / "__init__.py").exists())
    assert complaints + [f"{folder}/__init__.py is missing" for folder in missing] == []


TOOLS = {"dev", "docs"}
"""Extras that no module of the code folders needs."""


def library_names(root: Path, *, tools: bool) -> set[str]:
    """Return the import names of the declared dependencies, also of the extras; tools: of developers, too."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    declared = list(project["dependencies"])
    for extra, more in project.get("optional-dependencies", {}).items():
        declared += [line for line in more if not line.startswith("dprl[")] if tools or extra not in TOOLS else []
    names = {re.split(r"[\s\[<>=!~;]", requirement, maxsplit=1)[0].lower() for requirement in declared}
    return {IMPORTED_AS.get(name, name.replace("-", "_")) for name in names}


def test_module_names(root: Path) -> None:
    """There are no modules named after the standard library or a library, or with miscellaneous names."""
    taken = set(sys.stdlib_module_names) | library_names(root, tools=True) | MORE_LIBRARIES
    complaints = []
    for path in modules(root):
        if path.stem in taken:
            complaints.append(f"{path}: a library has this name")
        if path.stem in DRAWERS:
            complaints.append(f"{path}: name it after what it does")
    assert complaints == []


def test_dependencies_are_those_that_are_imported(root: Path) -> None:
    """There are no libraries that the code folders import and pyproject.toml does not list, and the other way round."""
    imported: set[str] = set()
    for path in modules(root):
        if path.suffix == ".py":
            nodes = list(ast.walk(ast.parse((root / path).read_text())))
            imported |= {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
            imported |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    used = {name.split(".")[0] for name in imported} - set(sys.stdlib_module_names) - {"dprl"}
    used = {PART_OF.get(name, name) for name in used}
    declared = library_names(root, tools=False)
    unlisted = [f"pyproject.toml does not list {name}" for name in sorted(used - declared)]
    unused = sorted(declared - used - LOADED_BY_NAME)
    assert unlisted + [f"pyproject.toml lists {name}, which nothing imports" for name in unused] == []


def test_configs_are_named_like_their_files(root: Path) -> None:
    """There are no configs whose name is not their file's."""
    complaints = []
    for path in sorted((root / "tune_configs").glob("*.y*ml")):
        name = yaml.safe_load(path.read_text()).get("name")
        if path.name != f"{name}.yaml":
            complaints.append(f"tune_configs/{path.name}: its name is {name}")
    assert complaints == []


def test_the_selection_of_make_smoke_exists(root: Path) -> None:
    printed = subprocess.run(["make", "-n", "smoke"], cwd=root, capture_output=True, text=True, check=True).stdout
    named = re.findall(r"tests/[\w/.]+", printed)
    assert len(named) > 10
    assert [name for name in named if not (root / name).exists()] == []


# Links between pages point to existing files.


PAGES = ("*.md", "docs/*.md", "docs/*/*.md", "*/README.md")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)")


def broken_links(page: Path) -> list[str]:
    """Return the relative links of a page whose file does not exist."""
    targets = [target for target in LINK.findall(page.read_text()) if "://" not in target]
    return [target for target in targets if not (page.parent / target).exists()]


def pages(root: Path) -> list[Path]:
    return [page for pattern in PAGES for page in sorted(root.glob(pattern))]


def test_every_link_leads_to_a_file(root: Path) -> None:
    assert {page.name: broken_links(page) for page in pages(root) if broken_links(page)} == {}
