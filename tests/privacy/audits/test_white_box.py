"""Recomputation from the noise objects agrees with the ledger, and detects false claims."""

from __future__ import annotations

import math

import pytest

from dprl.privacy import CentralPrivacy, LocalPrivacy, NoPrivacy, PrivacyConfig, Streams
from dprl.privacy.audits.white_box import nodes_entered, recomputed_epsilon, supremum_of_loss
from dprl.privacy.counters.binary_tree import BinaryTree
from dprl.privacy.mechanisms.base import Sensitivity
from dprl.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from dprl.privacy.mechanisms.gaussian import Gaussian
from dprl.privacy.mechanisms.laplace import Laplace
from tests.privacy.audits.test_privatizer_probes import families


class ModestTree(BinaryTree):
    """A binary tree that claims that a user enters one node only."""

    def sensitivity(self, row: Sensitivity) -> Sensitivity:
        """Return a sensitivity that is too small."""
        return row


def test_the_supremum_is_that_of_the_densities() -> None:
    assert supremum_of_loss(Laplace(4.0), 1.0) == pytest.approx(0.25)
    assert supremum_of_loss(DiscreteLaplace(4.0), 3.0) == pytest.approx(0.75)
    assert supremum_of_loss(Gaussian(4.0), 1.0) == math.inf


@pytest.mark.parametrize("n_items", [1, 2, 3, 4, 7, 8, 100, 999])
def test_nodes_are_counted(n_items: int) -> None:
    row = Sensitivity.of_cells(6)
    tree = BinaryTree(n_items, Laplace(1.0))
    assert nodes_entered(tree, row) == tree.sensitivity(row)


def test_a_tree_that_lies_is_not_believed() -> None:
    row = Sensitivity.of_cells(6)
    assert nodes_entered(ModestTree(999, Laplace(1.0)), row).l1 == 10 * row.l1


@pytest.mark.parametrize(
    "config",
    [
        LocalPrivacy(1.0),
        LocalPrivacy(1.0, calibration="printed"),
        LocalPrivacy(1.0, families="one_hot", mechanism="sampled_optimized_unary_encoding"),
        LocalPrivacy(2.0, families="one_hot", mechanism="symmetric_unary_encoding"),
        LocalPrivacy(2.0, families="one_hot", mechanism="direct_encoding"),
        LocalPrivacy(1.0, 1e-5, mechanism="gaussian"),
        CentralPrivacy(1.0),
        CentralPrivacy(1.0, calibration="printed"),
        CentralPrivacy(1.0, families="marginal", counter="kary_tree"),
        CentralPrivacy(1.0, 1e-6, mechanism="gaussian"),
        CentralPrivacy(1.0, 1e-6, mechanism="laplace"),
    ],
)
def test_it_agrees_with_the_ledger(config: PrivacyConfig) -> None:
    privatizer = config.build(families(5), 999, Streams(0, "white box"))
    delta = getattr(config, "delta", 0.0)
    proved = privatizer.planned_ledger().epsilon(delta)
    assert recomputed_epsilon(privatizer, delta) == pytest.approx(proved, rel=1e-4)


def test_no_noise_is_no_privacy() -> None:
    assert recomputed_epsilon(NoPrivacy().build(families(2), 5, Streams(0, "white box")), 0.0) == math.inf
