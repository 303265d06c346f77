"""Registration of plugins' algorithms and environments, and loading of plugins."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from numba import NumbaError

from dprl import algorithms, envs
from dprl.algorithms.tabular import TabularMDPConfig
from dprl.algorithms.tabular.functions import Planner, algorithm_of
from dprl.platform.errors import broken_rule
from dprl.sources import (
    ANY,
    GROUP,
    VARIABLE,
    imported_packages,
    is_installed,
    is_module_name,
    package_of,
    plugin_files,
    plugin_modules,
    results_version,
    sources_are_unchanged,
    used_packages,
)

PLUGIN_ERRORS = (
    *(ValueError, ArithmeticError, LookupError, OSError, RuntimeError, MemoryError),
    *(TypeError, AttributeError, NameError, AssertionError, ImportError, SyntaxError),
    NumbaError,  # for a kernel that does not compile; a direct subclass of Exception
)
"""Errors that a mistake in a plugin may raise, in an import or in a cell."""

T = TypeVar("T", bound=type[Any])
_PACKAGE = "dprl"
_AT_IMPORT = frozenset(sys.modules)
_digested: set[str] = set()


def register_algorithm(config: T) -> T:
    """Register the config class of an algorithm under its `name`, and return it; usable as a decorator.

    The class implements `dprl.algorithms.AlgorithmConfig`; a tabular one is a subclass of `TabularMDPConfig`. Raises
    ValueError for a name that is taken, and for a class outside a plugin.
    """
    _check_part(config, algorithms.ALGORITHMS, "algorithm")
    algorithms.ALGORITHMS[config.name] = config
    return config


def register_function(function: Planner) -> type[TabularMDPConfig]:
    """Register an algorithm given by one Python function of private counts, and return its config class.

    See `algorithm_of`. The function may be defined anywhere and redefined in a notebook, because the digest of its
    source is one of its settings. Raises ValueError for a name that another algorithm has, and for a function with
    other arguments.
    """
    config = algorithm_of(function)
    there = algorithms.ALGORITHMS.get(config.name)
    if there is not None and not hasattr(there, "source"):
        raise ValueError(f"algorithm {config.name} must have a unique name, got that of {there.__name__}; rename it")
    algorithms.ALGORITHMS[config.name] = config
    return config


def register_environment(spec: T) -> T:
    """Register the spec of an environment, a `dprl.envs.EnvConfig`, under its `name`, and return it.

    Raises ValueError like `register_algorithm`, and for a kind of environment that no algorithm plays.
    """
    _check_part(spec, envs.ENVIRONMENTS, "environment")
    envs.enter(spec)
    return spec


@cache
def load_plugins() -> tuple[str, ...]:
    """Import all plugins to register their parts, and return their names.

    Raises UserError for an invalid plugin, and for code that would run without being part of a cell's digest.
    """
    before = set(sys.modules)
    for name in plugin_modules():
        if not is_module_name(name):
            remedy = "write e.g. my_package.my_module"
            raise broken_rule(VARIABLE, "must be names of modules, with commas between them", name, remedy)
        if package_of(name) in sys.stdlib_module_names:
            raise broken_rule(VARIABLE, "must be your own modules, not Python's", name, "rename it")
        try:
            importlib.import_module(name)
        except PLUGIN_ERRORS as error:
            rule = f"must be modules that can be imported ({type(error).__name__}: {error})"
            remedy = f"correct it, put its folder on PYTHONPATH, or remove the name (entry points: group {GROUP})"
            raise broken_rule(VARIABLE, rule, name, remedy) from error
    if plugin_modules():
        _require_digested(sys.modules.keys() - before)
        if not sources_are_unchanged():
            rule, remedy = "must find the same sources as at the start of the program", "start it again"
            raise broken_rule(VARIABLE, rule, ",".join(plugin_modules()), remedy)
    return plugin_modules()


def require_digested_modules(environments: Iterable[object]) -> None:
    """Raise UserError if a loaded module that plugins import is not part of a cell's digest.

    environments: specs of the cells. `env.source` covers the module that their `env_id` names.
    """
    loaded = sys.modules.keys() - _digested
    if not plugin_modules() or not loaded:
        return
    imported = {package for _, file in plugin_files() for package in imported_packages(file)}
    by_plugins = {name for name in loaded if package_of(name) in imported}
    if ANY in imported:  # by a name that is not in the source
        covered = {package_of(environment_module(each)) for each in environments}
        by_plugins |= {name for name in loaded - _AT_IMPORT if package_of(name) not in covered}
    _require_digested(by_plugins)
    _digested.update(loaded)


def environment_module(spec: object) -> str:
    """Return the module that the `env_id` of an environment names, '' without one."""
    return str(getattr(spec, "env_id", "")).rpartition(":")[0]


def version_of_parts(algorithm: type, env: type) -> str:
    """Return the version of results, with a digest of the plugins that these parts belong to or use."""
    return results_version(used_packages(frozenset({algorithm.__module__, env.__module__})))


def _require_digested(loaded: Collection[str]) -> None:
    """Raise UserError if a loaded module belongs neither to a plugin nor to an installed package."""
    digested = {file for _, file in plugin_files()}
    for name in sorted(loaded):
        origin = getattr(getattr(sys.modules.get(name), "__spec__", None), "origin", None)
        file = Path(origin).resolve() if origin is not None and Path(origin).is_file() else None
        if file is None or file in digested or package_of(name) == _PACKAGE or is_installed(file):
            continue
        rule = "must name every module of yours that plugins use, because cells' digests must cover its source"
        raise broken_rule(VARIABLE, rule, name, "add its name, or move it into the plugin's package")


def _check_part(part: type[Any], registry: Mapping[str, type[Any]], kind: str) -> None:
    """Raise ValueError unless a plugin's part may be registered in `registry` under its name."""
    name = getattr(part, "name", None)
    if not isinstance(name, str) or not name.isidentifier():
        raise ValueError(f"name must be one word, got {name!r}; give {part.__qualname__} a class variable `name`")
    packages = {package_of(module) for module in plugin_modules()} | {_PACKAGE}
    if package_of(part.__module__) not in packages:
        # Its source would not be part of a cell's digest, so another version would count as the same cell.
        wrong = f"{kind} {name} must belong to a plugin, got module {part.__module__}"
        raise ValueError(f"{wrong}; name it in ${VARIABLE}, or in an entry point of group {GROUP}")
    there = registry.get(name, part)
    if (there.__module__, there.__qualname__) != (part.__module__, part.__qualname__):
        raise ValueError(f"{kind} {name} must have a unique name, got that of {there.__module__}; rename it")
