"""Files shipped with a job: the running code as an unpacked wheel, the config, plugins and modules of environments."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from dprl.platform.configs.yaml_text import write_yaml
from dprl.sources import (
    VARIABLE,
    imported_packages,
    is_installed,
    is_module_name,
    package_files,
    package_of,
    plugin_files,
)

CONFIG_FILE = "config.yaml"
_PACKAGE = "dprl"
_TOP_FOLDERS = ("privacy", "envs", "algorithms", "platform", "papers")


def pack(config: Mapping[str, Any], into: Path, modules: Collection[str] = ()) -> tuple[Path, Path]:
    """Copy the running code and `config` into the empty folder `into`, as two folders.

    They are: the package, the same for every job; and the config, plugins and environments.
    Ray names shipped folders by their content, so the code is sent to each node once and keeps the path of its compiled
    kernels there. The wheel is unpacked because Ray would install a packed one with all dependencies on every node.

    modules: of environments. Modules that they import are shipped, too, unless they are installed.

    It copies the sources that this module was loaded from: editable and packaged installs both ship the code that they
    run.
    """
    top = Path(__file__).resolve().parents[2]
    code, job = into / _PACKAGE, into / "job"
    for folder in _TOP_FOLDERS:
        shutil.copytree(top / folder, code / folder, ignore=shutil.ignore_patterns("__pycache__"))
    # Without __init__.py an installed `dprl` would be imported instead: regular packages precede namespaces.
    own = top if (top / "__init__.py").exists() else top / "package"
    for source in own.glob("*.py"):
        shutil.copyfile(source, code / source.name)
    job.mkdir()
    (job / CONFIG_FILE).write_text(write_yaml(dict(config)), encoding="utf-8")
    # Plugins that $DPRL_PLUGINS names; those with entry points are installed on the nodes.
    named = {package_of(name.strip()) for name in os.environ.get(VARIABLE, "").split(",")}
    for name, source in plugin_files():
        if package_of(name) in named:
            _copy(source, job / name)
    _copy_modules(modules, job)
    return code, job


def _copy_modules(modules: Collection[str], job: Path) -> None:
    """Copy the packages of modules, and all packages that these import, unless they are installed."""
    done = {_PACKAGE, *sys.stdlib_module_names}
    new = {package_of(module) for module in modules}
    while new := {name for name in new - done if is_module_name(name)}:
        done |= new
        files = [each for package in sorted(new) for each in _files_to_ship(package)]
        for name, source in files:
            _copy(source, job / name)
        new = {package for _, source in files for package in imported_packages(source)}


def _files_to_ship(package: str) -> list[tuple[str, Path]]:
    try:
        files = package_files(package)
        first = next(files, None)
    except ValueError:  # a module that was made without a file
        return []
    return [] if first is None or is_installed(first[1]) else [first, *files]


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
