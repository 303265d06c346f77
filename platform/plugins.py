"""Parts of one's own: how they are registered, and who is loaded to register them."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

from dprl import algorithms, envs
from dprl.platform.errors import broken_rule
from dprl.privacy.mechanisms import ADDITIVE, MECHANISMS
from dprl.privacy.mechanisms.tabulated import TabulatedMechanism
from dprl.privacy.plugins import GROUP, VARIABLE, plugin_modules

__all__ = ["load_plugins", "register_algorithm", "register_environment", "register_mechanism"]

T = TypeVar("T", bound=type[Any])
_OWN = "dprl"


def register_algorithm(config: T) -> T:
    """Enter the config class of an algorithm under its `name`; returns it, so this can decorate the class.

    It is what `dprl.algorithms.AlgorithmConfig` says; a tabular one is below `TabularMDPConfig`. Raises ValueError for
    a name that is taken, and for a class of a module that is no plugin.
    """
    _check(config, algorithms.ALGORITHMS, "algorithm")
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
    """Enter a class below `TabulatedMechanism` under its `name`, as noise of local reports of counts; returns it.

    Raises ValueError as `register_algorithm`, and for a class that is not below TabulatedMechanism: no other sampler
    can be added from outside.
    """
    _check(mechanism, MECHANISMS, "mechanism")
    if not issubclass(mechanism, TabulatedMechanism):
        raise ValueError(f"mechanism {mechanism.name} must be below TabulatedMechanism, got {mechanism.__qualname__}")
    ADDITIVE[mechanism.name] = MECHANISMS[mechanism.name] = mechanism
    return mechanism


@cache
def load_plugins() -> tuple[str, ...]:
    """Import every plugin, which registers its parts, and return their names. Raises UserError."""
    for name in plugin_modules():
        try:
            importlib.import_module(name)
        except (ImportError, SyntaxError, ValueError) as error:
            rule = f"must be modules that can be imported ({type(error).__name__}: {error})"
            remedy = f"correct it, put its folder on PYTHONPATH, or remove the name (entry points: group {GROUP})"
            raise broken_rule(VARIABLE, rule, name, remedy) from error
    return plugin_modules()


def _check(part: type[Any], registry: Mapping[str, type[Any]], kind: str) -> None:
    """Raise ValueError unless a part of a plugin may be entered in `registry` under its name."""
    name = getattr(part, "name", None)
    if not isinstance(name, str) or not name.isidentifier():
        raise ValueError(f"name must be one word, got {name!r}; give {part.__qualname__} a class variable `name`")
    packages = {module.partition(".")[0] for module in plugin_modules()} | {_OWN}
    if part.__module__.partition(".")[0] not in packages:
        # Its source would not count in the digest of a cell: another version of it would pass for the same cell.
        raise ValueError(
            f"{kind} {name} must be of a plugin, got module {part.__module__}; name it in ${VARIABLE}, or in an entry "
            f"point of group {GROUP}"
        )
    there = registry.get(name, part)
    if (there.__module__, there.__qualname__) != (part.__module__, part.__qualname__):
        raise ValueError(f"{kind} {name} must have a name of its own, got that of {there.__module__}; rename it")
