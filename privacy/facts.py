"""What a certificate says of the noise beside its guarantee: how large it is, how users differ, what is best."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import numpy as np

from dprl.privacy.accounting.composition import compose, summary_over_users
from dprl.privacy.accounting.curves import PrivacyCurve
from dprl.privacy.base import Guarantee, Int64Array
from dprl.privacy.channels import NoiseParts
from dprl.privacy.choices import Budget, best_of_all
from dprl.privacy.layouts import Layout
from dprl.privacy.ledger import Release
from dprl.privacy.mechanisms.base import Sensitivity

# Beyond that, one number for every user takes longer than it tells.
_MOST_USERS = 2_000_000


@runtime_checkable
class Tree(Protocol):
    """A counter whose users enter different numbers of nodes."""

    def losses(self) -> Int64Array:
        """Return how many nodes each user enters, int64[T]."""


def count_error(layout: Layout, noise: NoiseParts) -> tuple[float, float]:
    """Return (rms over the episodes, maximum) of the standard deviation of one cell of the first family."""
    summands = layout.summands(layout.needed.families[0])
    if noise.report is not None:
        users = np.arange(1, noise.counter.n_items + 1)
        deviations = np.sqrt(noise.report.variance * users)
    elif noise.counter.node is not None:
        deviations = noise.counter.profile() * np.sqrt(noise.counter.node.variance)
    else:
        return 0.0, 0.0
    deviations = deviations * np.sqrt(summands)
    return float(np.sqrt(np.mean(deviations**2))), float(np.max(deviations))


def facts(
    guarantee: Guarantee | None, layout: Layout, noise: NoiseParts, releases: tuple[Release, ...]
) -> dict[str, Any]:
    """Return 'error', 'per_user' and 'best_available' for the certificate; without a guarantee nothing."""
    if guarantee is None:
        return {}
    rms, largest = count_error(layout, noise)
    error = {"family": layout.needed.families[0].name, "rms": rms, "max": largest}
    arithmetic = "exact" if layout.whole else "fast"
    budget = Budget(guarantee.epsilon, guarantee.delta, layout, noise.counter.n_items, arithmetic)
    best = best_of_all(guarantee.trust_model, budget)
    return {
        "error": error,
        "per_user": _per_user(noise, releases, guarantee.delta),
        "best_available": {**best, "ratio": rms / best["rms"]},
    }


def _per_user(noise: NoiseParts, releases: tuple[Release, ...], delta: float) -> dict[str, float] | None:
    """Return how the proved epsilon at `delta` spreads over the users of a tree; None where all have the same."""
    counter = noise.counter
    if not isinstance(counter, Tree) or counter.n_items > _MOST_USERS:
        return None
    most = releases[0].nodes_per_user

    def curve_of(nodes: int) -> PrivacyCurve:
        return compose([_with_nodes(release, nodes, most) for release in releases])

    return summary_over_users(curve_of, counter.losses(), delta)._asdict()


def _with_nodes(release: Release, nodes: int, most: int) -> PrivacyCurve:
    """Return what a release proves of a user who enters `nodes` nodes in place of `most`."""
    if release.sensitivity is None:
        return release.curve()
    row = Sensitivity.of_cells(release.sensitivity.cells // most)
    return replace(release, sensitivity=row.repeated(nodes), public_start=None).curve()
