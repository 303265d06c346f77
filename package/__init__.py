"""Differentially private reinforcement learning on Ray, with a privacy certificate for every run."""

# ruff: noqa: F403, F405 - type checkers find the names of the Python API there; at run time __getattr__ does

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dprl import tune as tune
    from dprl.platform.api import *

__all__ = [
    "Experiment",
    "Sweep",
    "UserError",
    "__version__",
    "algorithm",
    "audit",
    "certify",
    "compose",
    "experiments",
    "from_arrays",
    "from_gymnasium",
    "grid",
    "load",
    "log_episodes",
    "log_trajectories",
    "mixture_of",
    "register_env",
    "run",
    "sweep",
    "users_needed",
    "verify",
]
_MODULES = ["tune"]
"""Public modules that need an extra of the project."""

__version__ = "0.3.0"

_HERE = Path(__file__).parent
if not (_HERE / "privacy").is_dir():
    # A checkout: this file lies beside the folders that are its subpackages, not above them as in a wheel.
    __path__ = [*__path__, str(_HERE.parent)]


def __getattr__(name: str) -> object:
    """Load the Python API on first use, so that `import dprl` alone takes no time."""
    if name in _MODULES:
        return importlib.import_module(f"dprl.{name}")
    if name not in __all__:
        raise AttributeError(f"module 'dprl' has no attribute {name!r}")
    globals()[name] = found = getattr(importlib.import_module("dprl.platform.api"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
