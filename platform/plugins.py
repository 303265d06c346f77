"""Parts of one's own: how they are registered, and who is loaded to register them."""

from __future__ import annotations

import importlib
import sys
import sysconfig
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from numba.core.errors import NumbaError

from dprl import algorithms, envs
from dprl.algorithms.tabular import TabularMDPConfig
from dprl.algorithms.tabular.functions import Planner, algorithm_of
from dprl.platform.errors import broken_rule
from dprl.plugins import GROUP, VARIABLE, is_module_name, package_of, plugin_files, plugin_modules, used_packages
from dprl.privacy.mechanisms import ADDITIVE, MECHANISMS
from dprl.privacy.mechanisms.tabulated import TabulatedMechanism, require_nothing_else
from dprl.sources import source_digest, sources_are_unchanged

__all__ = [
    "PLUGIN_ERRORS",
    "digest_with",
    "load_plugins",
    "register_algorithm",
    "register_environment",
    "register_function",
    "register_mechanism",
    "require_counted_modules",
]

PLUGIN_ERRORS = (
    *(ValueError, ArithmeticError, LookupError, OSError, RuntimeError, MemoryError),
    *(TypeError, AttributeError, NameError, AssertionError, ImportError, SyntaxError),
    NumbaError,  # of a kernel that does not compile; below Exception alone
)
"""Errors that a mistake in a plugin or another part raises, in an import or in one cell."""

T = TypeVar("T", bound=type[Any])
_OWN = "dprl"
_INSTALLED = {"site-packages", "dist-packages"}
_AT_IMPORT = frozenset(sys.modules)
_counted: set[str] = set()


def register_algorithm(config: T) -> T:
    """Enter the config class of an algorithm under its `name`; returns it, so this can decorate the class.

    It is `dprl.algorithms.AlgorithmConfig`; a tabular one is a subclass of `TabularMDPConfig`. Raises ValueError for
    a name that is taken, and for a class of a module that is no plugin.
    """
    _check(config, algorithms.ALGORITHMS, "algorithm")
    algorithms.ALGORITHMS[config.name] = config
    return config


def register_function(function: Planner) -> type[TabularMDPConfig]:
    """Enter the algorithm that is one Python function of private counts, see `algorithm_of`; return its settings.

    It may be defined anywhere, also again in a notebook: the digest of its source is one of its settings. Raises
    ValueError for a name that is taken by another part, and for a function that does not fit.
    """
    config = algorithm_of(function)
    there = algorithms.ALGORITHMS.get(config.name)
    if there is not None and not hasattr(there, "source"):
        raise ValueError(
            f"algorithm {config.name} must have a name of its own, got that of {there.__name__}; rename it"
        )
    algorithms.ALGORITHMS[config.name] = config
    return config


def register_environment(spec: T) -> T:
    """Enter the spec of an environment, a `dprl.envs.EnvConfig`, under its `name`; returns it.

    Raises ValueError as `register_algorithm`, and for a kind of environment that no algorithm plays.
    """
    _check(spec, envs.ENVIRONMENTS, "environment")
    envs.enter(spec)
    return spec


def register_mechanism(mechanism: T) -> T:
    """Enter a subclass of `TabulatedMechanism` under its `name`, as noise of local reports of counts; returns it.

    Raises ValueError as `register_algorithm`, and for other classes: no other sampler can be added from
    outside.
    """
    _check(mechanism, MECHANISMS, "mechanism")
    if not issubclass(mechanism, TabulatedMechanism):
        got = mechanism.__qualname__
        raise ValueError(f"mechanism {mechanism.name} must be a subclass of TabulatedMechanism, got {got}")
    require_nothing_else(mechanism)
    ADDITIVE[mechanism.name] = MECHANISMS[mechanism.name] = mechanism
    return mechanism


@cache
def load_plugins() -> tuple[str, ...]:
    """Import every plugin, so that it registers its parts, and return their names.

    Raises UserError, also if some code would run that is not part of a cell's digest.
    """
    before = set(sys.modules)
    for name in plugin_modules():
        if not is_module_name(name):
            remedy = "write e.g. my_package.my_module"
            raise broken_rule(VARIABLE, "must be names of modules, with commas between them", name, remedy)
        if package_of(name) in sys.stdlib_module_names:
            raise broken_rule(VARIABLE, "must be modules of yours, none of Python's own", name, "rename it")
        try:
            importlib.import_module(name)
        except PLUGIN_ERRORS as error:
            rule = f"must be modules that can be imported ({type(error).__name__}: {error})"
            remedy = f"correct it, put its folder on PYTHONPATH, or remove the name (entry points: group {GROUP})"
            raise broken_rule(VARIABLE, rule, name, remedy) from error
    if plugin_modules():
        _require_counted(sys.modules.keys() - before)
        if not sources_are_unchanged():
            rule, remedy = "must find the same sources as when the program began", "start it again"
            raise broken_rule(VARIABLE, rule, ",".join(plugin_modules()), remedy)
    return plugin_modules()


def require_counted_modules() -> None:
    """Raise UserError if code ran that is part of no cell's digest: a plugin may import when it is used."""
    if plugin_modules():
        loaded = sys.modules.keys() - _AT_IMPORT - _counted
        _require_counted(loaded)
        _counted.update(loaded)


def digest_with(algorithm: type, env: type, mechanism: str) -> str:
    """Return the digest of the sources of this program, and of the plugins that these parts are of or use."""
    parts = (algorithm, env, MECHANISMS.get(mechanism))
    return source_digest(used_packages(frozenset(part.__module__ for part in parts if part is not None)))


def _require_counted(loaded: Collection[str]) -> None:
    """Raise UserError if a module that a plugin has loaded is neither of a plugin nor of an installed package."""
    counted = {file for _, file in plugin_files()}
    for name in sorted(loaded):
        origin = getattr(getattr(sys.modules.get(name), "__spec__", None), "origin", None)
        file = Path(origin).resolve() if origin is not None and Path(origin).is_file() else None
        if file is None or file in counted or package_of(name) == _OWN or _is_installed(file):
            continue
        rule = "must name every module of yours that its plugins use: its source is part of no cell's digest"
        raise broken_rule(VARIABLE, rule, name, "add its name, or move it into the plugin's package")


def _is_installed(file: Path) -> bool:
    """Whether the file is of the standard library or of a package that an installer has put in its place."""
    standard = [Path(sysconfig.get_path(kind)).resolve() for kind in ("stdlib", "platstdlib")]
    return bool(_INSTALLED & set(file.parts)) or any(file.is_relative_to(folder) for folder in standard)


def _check(part: type[Any], registry: Mapping[str, type[Any]], kind: str) -> None:
    """Raise ValueError unless a part of a plugin may be entered in `registry` under its name."""
    name = getattr(part, "name", None)
    if not isinstance(name, str) or not name.isidentifier():
        raise ValueError(f"name must be one word, got {name!r}; give {part.__qualname__} a class variable `name`")
    packages = {package_of(module) for module in plugin_modules()} | {_OWN}
    if package_of(part.__module__) not in packages:
        # Its source would not count in the digest of a cell: another version of it would pass for the same cell.
        raise ValueError(
            f"{kind} {name} must be of a plugin, got module {part.__module__}; name it in ${VARIABLE}, or in an entry "
            f"point of group {GROUP}"
        )
    there = registry.get(name, part)
    if (there.__module__, there.__qualname__) != (part.__module__, part.__qualname__):
        raise ValueError(f"{kind} {name} must have a name of its own, got that of {there.__module__}; rename it")
