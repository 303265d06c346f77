"""Made-up cells of a report."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from dprl.algorithms.base import REGRET
from dprl.platform.results.cells import Cell

EPISODES = np.array([1, 10, 100])


NOWHERE: Any = SimpleNamespace(made_by=str)
"""The folder of a made-up cell, which has no files."""


def certificate(
    model: str, claimed: float | None, proved: float, audit: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The fields of a certificate that a report reads."""
    verdict = "unbounded" if model == "none" else "holds" if claimed is not None and proved <= claimed else "fails"
    return {
        "trust_model": model,
        "claimed": {"epsilon": claimed, "delta": 0.0, "calibration": "printed", "source": "a paper"},
        "proved": {"epsilon_at_claimed_delta": proved, "pure_epsilon": proved, "epsilon_at_delta": {}},
        "verdict": verdict,
        "factor": None,
        "audit": audit,
    }


def report_cell(
    finals: list[float],
    model: str = "jdp",
    claimed: float | None = 1.0,
    proved: float = 1.0,
    algorithm: str = "private_ucb_vi",
    **more: Any,
) -> Cell:
    """A cell whose seeds' regrets grow to `finals`; without privacy for model none."""
    if model == "none":
        claimed, proved = None, float("inf")
    releases = more.pop("releases", None)
    scale = (1.0 if releases is None else 0.1) / proved
    noise = [{"mechanism": "laplace", "scale": scale, "nodes_per_user": 1}]
    proof = certificate(model, claimed, proved, more.pop("audit", None)) | {"releases": releases, "noise": noise}
    ends = np.array(finals)
    row: dict[str, Any] = {
        "cell": f"{abs(hash((algorithm, model, claimed, proved, *finals, *more.items()))):012x}"[:12],
        "algorithm.name": algorithm,
        "env.name": "riverswim",
        "env.horizon": 4,
        "privacy.model": model,
        "episodes": 100,
        "seeds": len(finals),
        "proved_epsilon": proved,
        "verdict": proof["verdict"],
        "mean_regret": ends.mean() / 100,
        "seed": 0,
        "claimed_delta": 0.0,
    }
    if claimed is not None:
        row |= {"claimed_epsilon": claimed, "privacy.epsilon": claimed, "privacy.delta": 0.0}
    if len(finals) > 2:
        row |= {"regret_lower": ends.min(), "regret_upper": ends.max()}
    curves = ends[:, np.newaxis] * EPISODES / EPISODES[-1]
    return Cell({**row, **more}, proof, REGRET, EPISODES, curves, NOWHERE)
