"""An attack on signed trees: a user's rows are chosen after differences of the user's own nodes are known.

Prefix 2 of base 3 is a large node less a small one, both of which user 3 enters; prefix 3 is the large node. Given the
difference the two noises are not independent, so a cell with a difference near 0 reveals more than two nodes do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from dprl.privacy.audits.distinguishing_attack import Key, Probe, measure
from dprl.privacy.audits.findings import Claim, Measurement, proof_of
from dprl.privacy.base import Float64Array, Sensitivity
from dprl.privacy.counters import KaryTree, release_prefix
from dprl.privacy.counters.base import node_of
from dprl.privacy.mechanisms.base import Mechanism
from dprl.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from dprl.privacy.mechanisms.laplace import Laplace

CELLS, ITEMS, BASE = 20, 3, 3
ROW = Sensitivity.of_cells(2)
CLAIM = Claim(1.0, 0.05)


@dataclass(frozen=True)
class AdaptiveUser:
    """User 3 adds to one of the two cells with the smallest differences; users 1 and 2, who are known, to cell 0."""

    tree: KaryTree

    @property
    def probe(self) -> Probe:
        """The attack."""
        return Probe(f"{CELLS} cells, user 3 chooses after prefix 2, {node_of(self.tree)}", self._scores)

    def _scores(self, world: int, runs: int, key: Key) -> Float64Array:
        """Return log likelihood ratios given prefix 2, float64[runs]; Laplace noise."""
        state = self.tree.open(runs * CELLS, key)
        totals = np.zeros((runs, CELLS))
        released = np.empty(runs * CELLS)
        for item in (1, 2):
            totals[:, 0] += 1.0
            release_prefix(released, totals.reshape(-1), state, item)
        difference = released.reshape(runs, CELLS) - totals
        chosen = np.argsort(np.abs(difference), axis=1, kind="stable")[:, :2]
        known = totals.copy()
        np.put_along_axis(totals, chosen[:, world, None], 1.0 + totals[np.arange(runs), chosen[:, world]][:, None], 1)
        release_prefix(released, totals.reshape(-1), state, 3)
        noise = np.take_along_axis(released.reshape(runs, CELLS) - known, chosen, 1)
        seen = np.take_along_axis(difference, chosen, 1)
        gain = (self._log_density(noise, seen) - self._log_density(noise - 1.0, seen)) * np.array([1.0, -1.0])
        return np.asarray(gain.sum(axis=1))

    def _log_density(self, large: Float64Array, difference: Float64Array) -> Float64Array:
        """Return, up to a constant, ln of the density of a large node's noise given its difference to a small one's."""
        return -(np.abs(large) + np.abs(large - difference)) / node_of(self.tree).scale


def attacked(node: Mechanism, proved: Sensitivity) -> Measurement:
    user = AdaptiveUser(KaryTree(ITEMS, node, BASE))
    return measure(user.probe, CLAIM, proof_of(node.curve(proved), CLAIM), alpha=1e-4)


@pytest.mark.parametrize("law", [Laplace, DiscreteLaplace])
def test_nodes_of_a_cell_are_no_independent_releases(law: type[Laplace | DiscreteLaplace]) -> None:
    """The attack refutes the accounting that treats every node as a separate release."""
    apart = ROW.repeated(KaryTree(ITEMS, base=BASE).levels)
    measured = attacked(law.calibrated(CLAIM.epsilon, CLAIM.delta, apart), apart)
    assert measured.proved_epsilon <= 1.0 + 1e-9
    assert measured.refutes
    assert measured.contradicts_proof
    assert measured.delta_lb > 0.08


@pytest.mark.parametrize("law", [Laplace, DiscreteLaplace])
def test_a_tree_accounts_for_users_who_adapt(law: type[Laplace | DiscreteLaplace]) -> None:
    """False alarm: below 1e-4 a law."""
    charged = KaryTree(ITEMS, base=BASE).sensitivity(ROW)
    measured = attacked(law.calibrated(CLAIM.epsilon, CLAIM.delta, charged), charged)
    assert not measured.refutes
    assert not measured.contradicts_proof
    # The attack is not vacuous.
    assert measured.epsilon_lb > 0.8
