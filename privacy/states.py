"""What states of runs have in common: arrays by name, checked before anything is changed, and parts with a prefix."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np


def check_arrays(state: Mapping[str, np.ndarray], own: Mapping[str, np.ndarray]) -> None:
    """Raise ValueError unless `state` has an array for each of `own`, of the same shape and type."""
    for name, array in own.items():
        found = state.get(name)
        if found is None or found.shape != array.shape or found.dtype != array.dtype:
            raise ValueError(f"the state's {name!r} is missing or of another shape; resume with the same settings")


def part_of(state: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """Return the arrays whose names begin with `prefix`, without it."""
    return {name.removeprefix(prefix): array for name, array in state.items() if name.startswith(prefix)}
