"""Claims of [QW24] and [CZ22] on counts as data, with the noise as printed, and certified noise as controls.

The example is epsilon = 1, H = 5 steps, K = 1000 episodes. Sampling uses smaller probes, where the same privacy loss
comes from fewer cells and is seen more often. A probe's users start in a known state and take a known first action, so
the counts of step 1 that depend on these do not change.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from dprl.privacy.audits.distinguishing_attack import measure
from dprl.privacy.audits.findings import Attack, Claim, Finding, NoiseProof, proof_of
from dprl.privacy.audits.message_probes import changed_cells, floating_point_event, noisy_cells
from dprl.privacy.audits.privatizer_probes import counter_prefixes
from dprl.privacy.base import Sensitivity, TrustModel
from dprl.privacy.counters import AnyCounter, BinaryTree, BufferedToeplitz, KaryTree
from dprl.privacy.counters.base import Counter, node_of
from dprl.privacy.designs.counts import printed_scale
from dprl.privacy.mechanisms.base import Mechanism
from dprl.privacy.mechanisms.gaussian import Gaussian
from dprl.privacy.mechanisms.laplace import Laplace

EPSILON, HORIZON, EPISODES = 1.0, 5, 1000
Scale = Callable[[int, int], float]
"""Scale of Laplace noise as a function of (H, K)."""
_QW24, _CZ22 = Claim(EPSILON, source="[QW24]"), Claim(EPSILON, source="[CZ22]")
_CERTIFIED = Claim(EPSILON, source="certified")
_FAMILIES = {"[QW24]": 2, "[CZ22]": 3}
_KNOWN_AT_THE_START = {1: 0, 2: 2, 3: 3}
"""Changed cells saved by a public start: two of N_1(s,a); with costs, the two of C_1(s,a) become one."""


def _printed(paper: str, model: TrustModel) -> Scale:
    """Return a paper's scale as `calibration: printed` runs it: a family's L1 change is taken to be H (D3)."""
    return lambda horizon, episodes: printed_scale(model, _FAMILIES[paper], horizon, episodes - 1, EPSILON)


def _with_another_log(scale: Scale) -> Scale:
    """Return `scale` times ln K: the printed parameter handed to a mechanism that divides by log K itself."""
    return lambda horizon, episodes: scale(horizon, episodes) * math.log(episodes)


def _inverted(scale: Scale) -> Scale:
    """Return the scale of noise Lap(1/epsilon') read literally, where epsilon' is the printed `scale` (D1, D2)."""
    return lambda horizon, episodes: 1.0 / scale(horizon, episodes)


def _certified(families: int) -> Scale:
    return lambda horizon, episodes: 2.0 * horizon * families * (episodes - 1).bit_length() / EPSILON


_TREE_OF_QW24, _TREE_OF_CZ22 = _printed("[QW24]", "jdp"), _printed("[CZ22]", "jdp")
_REPORT_OF_QW24, _REPORT_OF_CZ22 = _printed("[QW24]", "ldp"), _printed("[CZ22]", "ldp")


def _tree_proof(families: int, scale: Scale, claim: Claim) -> NoiseProof:
    """Return the guarantee of a binary tree with that node scale."""
    node = Laplace(scale(HORIZON, EPISODES))
    cells = Sensitivity.of_cells(2 * HORIZON * families)
    return proof_of(node.curve(BinaryTree(EPISODES - 1, node).sensitivity(cells)), claim)


def _report_proof(families: int, scale: Scale, claim: Claim) -> NoiseProof:
    """Return the guarantee of a report with that scale."""
    cells = Sensitivity.of_cells(2 * HORIZON * families)
    return proof_of(Laplace(scale(HORIZON, EPISODES)).curve(cells), claim)


def _tree_attack(families: int, scale: Scale, claim: Claim, horizon: int, episodes: int) -> Attack:
    """Return the attack on the real binary tree of H = `horizon` and K = `episodes`."""
    counter = BinaryTree(episodes - 1, Laplace(scale(horizon, episodes)))
    cells = 2 * horizon * families - _KNOWN_AT_THE_START[families]
    return _counter_attack(counter, cells, claim, f"H={horizon} K={episodes}")


def _counter_attack(counter: Counter, cells: int, claim: Claim, label: str) -> Attack:
    """Return the attack on a counter; its first user changes `cells` cells."""
    proved = proof_of(node_of(counter).curve(counter.sensitivity(Sensitivity.of_cells(cells))), claim)
    return partial(measure, counter_prefixes(counter, *changed_cells(cells), label), claim, proved)


def _cells_attack(mechanism: Mechanism, cells: int, claim: Claim, label: str) -> Attack:
    """Return the attack on one message; its user changes `cells` cells by 1."""
    proved = proof_of(mechanism.curve(Sensitivity.of_cells(cells)), claim)
    return partial(measure, noisy_cells(mechanism, *changed_cells(cells), label), claim, proved)


def _tree(name: str, subject: str, claim: Claim, scale: Scale, sizes: tuple[int, int], families: int = 0) -> Finding:
    """Return a claim on a binary tree, attacked at the (H, K) of `sizes`; families: those of the paper if 0."""
    n = families or _FAMILIES[claim.source]
    attack = _tree_attack(n, scale, claim, *sizes)
    return Finding(name, subject, claim, _tree_proof(n, scale, claim), attack=attack)


def _report(name: str, subject: str, claim: Claim, scale: Scale, families: int = 0) -> Finding:
    """Return a claim on reports; families: those of the paper if 0."""
    n = families or _FAMILIES[claim.source]
    attack = _cells_attack(Laplace(scale(1, EPISODES)), 2 * n, claim, "H=1, one report")
    return Finding(name, subject, claim, _report_proof(n, scale, claim), attack=attack)


def count_claims() -> list[Finding]:
    """Return the claims on binary trees and on reports."""
    upside_down = "as printed literally: the scale is upside down"
    tree, report = _inverted(_TREE_OF_CZ22), _inverted(_REPORT_OF_CZ22)
    in_one_node = _cells_attack(Laplace(tree(HORIZON, EPISODES)), 1, _CZ22, "one cell, one node")
    in_one_cell = _cells_attack(Laplace(report(HORIZON, EPISODES)), 1, _CZ22, "one cell")
    return [
        replace(
            _tree("C1", "tree, Lap(2H log K/eps)", _QW24, _TREE_OF_QW24, (2, 5)),
            runs=2_000_000,
            note="an item is in ceil(log2 K) nodes, not ln K, and a replaced user changes 2H cells of a family, not H",
        ),
        replace(
            _tree("C1'", "tree, Lap(2H (log K)^2/eps)", _QW24, _with_another_log(_TREE_OF_QW24), (1, 24)),
            note="holds for K >= 24; more noise than needed, and not the printed error bound",
        ),
        replace(_tree("C2", "tree, Lap(3H log K/eps)", _CZ22, _TREE_OF_CZ22, (1, 3)), runs=1_000_000, note="as C1"),
        replace(
            _tree("C2'", "tree, Lap(eps/(3H log K))", _CZ22, tree, (1, 3)),
            attack=in_one_node,
            runs=10_000,
            note=upside_down,
        ),
        replace(
            _report("L1", "report, Lap(2H/eps)", _QW24, _REPORT_OF_QW24),
            runs=1_000_000,
            note="the L1 sensitivity of a family is 2H, not H",
        ),
        replace(_report("L2", "report, Lap(3H/eps)", _CZ22, _REPORT_OF_CZ22), runs=1_000_000, note="as L1"),
        replace(
            _report("L2'", "report, Lap(eps/(3H))", _CZ22, report), attack=in_one_cell, runs=10_000, note=upside_down
        ),
    ]


def floating_point_claim() -> Finding:
    """Return the claim that float64 noise hides a count, which is false at every scale."""
    scale = 10.0
    claim = Claim(1.0 / scale, source="any float64 sampler")
    # In [2^-(k+1), 2^-k), one float64 in 2^k is a multiple of 2^-53; the others, for k >= 2, have mass 5/24 / b.
    proof = NoiseProof(math.inf, None, math.inf, 5.0 / (24.0 * scale))
    return Finding(
        "F",
        "count + float64 Lap(10)",
        claim,
        proof,
        attack=partial(measure, floating_point_event(Laplace(scale)), claim, proof),
        runs=400_000,
        note="low bits of a sum tell the count (Mironov 2012); integers do not have them",
    )


def _counter_control(name: str, counter: AnyCounter, delta: float) -> Finding:
    """Return certified noise of the least scale on a counter's prefixes, one family and one step."""
    claim, row = Claim(EPSILON, delta, "certified"), Sensitivity.of_cells(2)
    law = Gaussian if delta > 0.0 else Laplace
    node = law.calibrated(EPSILON, delta, counter.sensitivity(row))
    noisy = replace(counter, node=node)
    proof = proof_of(node.curve(noisy.sensitivity(row)), claim)
    attack = _counter_attack(noisy, row.cells, claim, f"H=1 T={counter.n_items}")
    return Finding(name, f"{counter.name}, {node.name}", claim, proof, attack=attack, runs=50_000)


def count_controls() -> list[Finding]:
    """Return certified noise for the same releases: none of it may be refuted."""
    two = _tree("C1 ok", "tree, Lap(4HL/eps), two families", _CERTIFIED, _certified(2), (2, 5), families=2)
    one = _tree("C2 ok", "tree, Lap(2HL/eps), one family", _CERTIFIED, _certified(1), (1, 3), families=1)
    report = _report("L1 ok", "report, Lap(2H/eps), one family", _CERTIFIED, _REPORT_OF_QW24, families=1)
    return [
        _counter_control("C3 ok", KaryTree(4), 0.0),
        _counter_control("C4 ok", BufferedToeplitz(4), 1e-6),
        replace(two, runs=400_000),
        replace(one, runs=400_000),
        replace(report, runs=1_000_000),
    ]
