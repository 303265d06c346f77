"""Noise scales and error bounds as papers print them, for `calibration: printed` and `precision: printed`.

They can be run and certified, but not all are correct: docs/paper_map.md has a proof about each.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from dprl.privacy.base import TrustModel
from dprl.privacy.queries.count_families import CountFamilies

PrintedError = Callable[[float, int, int, float], float]
"""Error bound E for the cells of one family, as a function of (Laplace scale b, n_users, n_cells, beta)."""


@dataclass(frozen=True)
class PrintedLemma:
    """A lemma that states a noise scale and an error bound for K = n_users + 1 episodes.

    Args:
        source: the lemma's name, for the certificate.
        scale: returns the Laplace scale b for (families, n_users, epsilon).
        error: its error bound; None if the paper leaves the constant open.
    """

    source: str
    scale: Callable[[CountFamilies, int, float], float]
    error: PrintedError | None


def _central_scale(families: CountFamilies, n_users: int, epsilon: float) -> float:
    # [QW24] has two families, [CZ22] three.
    # D1: [CZ22] Lemma 3 prints Lap(1/eps') with eps' = 3H log K / eps, which is inverted, as its E shows.
    return len(families.families) * families.n_steps * math.log(n_users + 1) / epsilon


def _central_error(scale: float, n_users: int, n_cells: int, beta: float) -> float:
    n_episodes = n_users + 1
    return scale * math.sqrt(8.0 * math.log(n_episodes) * math.log(6.0 * n_cells * n_episodes / beta))


def _local_scale(families: CountFamilies, n_users: int, epsilon: float) -> float:  # noqa: ARG001 - as the central one
    # D2: [CZ22] Lemma 4 prints Lap(1/eps') with eps' = 3H / eps: inverted as in D1.
    return len(families.families) * families.n_steps / epsilon


def _local_error(scale: float, n_users: int, n_cells: int, beta: float) -> float:
    n_episodes = n_users + 1
    return scale * math.sqrt(8.0 * n_episodes * math.log(6.0 * n_cells * n_episodes / beta))


PRINTED: dict[str, dict[TrustModel, PrintedLemma]] = {
    "[CZ22]": {
        "jdp": PrintedLemma("[CZ22] Lemma 3", _central_scale, _central_error),
        "ldp": PrintedLemma("[CZ22] Lemma 4", _local_scale, _local_error),
    },
    "[QW24]": {
        "jdp": PrintedLemma("[QW24] Lemma 5.1", _central_scale, error=None),
        "ldp": PrintedLemma("[QW24] Lemma 5.4", _local_scale, error=None),
    },
}
"""Lemmas by the `paper` of the count families and by trust model."""
