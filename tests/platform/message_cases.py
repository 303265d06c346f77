"""Cells whose users send one message of statistics each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dprl.platform.configs.experiment import Experiment, read_experiment

NONE: dict[str, Any] = {"model": "none"}
LAPLACE: dict[str, Any] = {"model": "ldp", "epsilon": 4.0}
GAUSSIAN: dict[str, Any] = {"model": "ldp", "epsilon": 4.0, "delta": 1e-5, "mechanism": "gram_gaussian"}
PRINTED: dict[str, Any] = {"model": "ldp", "epsilon": 4.0, "calibration": "printed"}
NO_CLIPS: dict[str, Any] = PRINTED | {"rewards": "public"}


def raw(privacy: Mapping[str, Any], algorithm: str = "ma_ldp", **changes: Any) -> dict[str, Any]:
    return {
        "name": "team",
        "algorithm": {"name": algorithm},
        "env": {"name": "network_mdp", "horizon": 3},
        "privacy": dict(privacy),
        "episodes": 20,
        "seeds": 3,
        **changes,
    }


def cell(privacy: Mapping[str, Any], algorithm: str = "ma_ldp", **changes: Any) -> Experiment:
    return read_experiment(raw(privacy, algorithm, **changes))
