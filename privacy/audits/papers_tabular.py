"""The claims of [QW24] and [CZ22] on counts, with the noise as printed, and certified noise as controls.

The example is epsilon = 1, H = 5 steps, K = 1000 episodes. What sampling shows is shown at smaller probes: there the
same loss is carried by fewer cells, and is met more often. A probe's users start in a known state and take a known
first action, so the counts of step 1 that these decide do not change.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from dprl.privacy.audits.findings import Claim, Measurement, NoiseProof, ProbeProof, proof_of
from dprl.privacy.audits.one_run import measure_one_run
from dprl.privacy.audits.page import Entry, Measure
from dprl.privacy.audits.probes_cells import FloatingPointEvent, NoisyCells, changed_cells
from dprl.privacy.audits.probes_counters import CounterPrefixes
from dprl.privacy.audits.two_worlds import Attack, measure
from dprl.privacy.base import CountFamilies, CountFamily
from dprl.privacy.counters import AnyCounter, KaryTree, NormalizedSquareRoot
from dprl.privacy.counters.base import Counter, node_of
from dprl.privacy.counters.binary_tree import BinaryTree
from dprl.privacy.counts.printed import PRINTED, PrintedLemma
from dprl.privacy.mechanisms.base import Mechanism, Sensitivity
from dprl.privacy.mechanisms.gaussian import Gaussian
from dprl.privacy.mechanisms.laplace import Laplace

EPSILON, HORIZON, EPISODES = 1.0, 5, 1000
_SMALL_DELTA = 1e-6
Scale = Callable[[int, int], float]
"""(H, K) -> the Laplace scale as printed."""

_QW24_NAME, _CZ22_NAME = "[QW24]", "[CZ22]"
_QW24, _CZ22 = 2, 3
"""How many families each paper releases."""
_KNOWN_AT_THE_START = {1: 0, _QW24: 2, _CZ22: 3}
"""How many changed cells a public start saves: two of N_1(s,a); with costs, the two of C_1(s,a) become one."""


def _central(families: int, scale: Scale, claim: Claim, horizon: int = HORIZON, episodes: int = EPISODES) -> NoiseProof:
    """Return what a binary tree with that node scale proves of `families` families."""
    node = Laplace(scale(horizon, episodes))
    cells = Sensitivity.of_cells(2 * horizon * families)
    return proof_of(node.curve(BinaryTree(episodes - 1, node).sensitivity(cells)), claim, exact=True)


def _local(families: int, scale: Scale, claim: Claim) -> NoiseProof:
    """Return what a report with that scale proves of `families` families."""
    return proof_of(
        Laplace(scale(HORIZON, EPISODES)).curve(Sensitivity.of_cells(2 * HORIZON * families)), claim, exact=True
    )


def _central_probe(families: int, scale: Scale, claim: Claim, horizon: int, episodes: int) -> Measure:
    """Return the two-world attack on the real binary tree."""
    node = Laplace(scale(horizon, episodes))
    cells = 2 * horizon * families - _KNOWN_AT_THE_START[families]
    return counter_probe(BinaryTree(episodes - 1, node), cells, claim, f"H={horizon} K={episodes}")


def counter_probe(counter: Counter, cells: int, claim: Claim, label: str) -> Measure:
    """Return the two-world attack on a counter whose first user changes `cells` cells."""
    ones, zeros = changed_cells(cells)
    proved = ProbeProof.of(node_of(counter).curve(counter.sensitivity(Sensitivity.of_cells(cells))), claim)
    return partial(measure, CounterPrefixes(counter, ones, zeros, label), claim, proved)


def cells_probe(mechanism: Mechanism, cells: int, label: str) -> NoisyCells:
    """Return the probe of one message whose user changes `cells` cells by 1."""
    ones, zeros = changed_cells(cells)
    return NoisyCells(mechanism, ones, zeros, label)


def cells_attack(mechanism: Mechanism, cells: int, claim: Claim, label: str) -> Measure:
    """Return the two-world attack on one message whose user changes `cells` cells by 1."""
    proved = ProbeProof.of(mechanism.curve(Sensitivity.of_cells(cells)), claim)
    return partial(measure, cells_probe(mechanism, cells, label), claim, proved)


def _local_probe(families: int, scale: Scale, claim: Claim, horizon: int) -> Measure:
    return cells_attack(Laplace(scale(horizon, EPISODES)), 2 * horizon * families, claim, f"H={horizon}, one report")


def _one_cell(scale: float, claim: Claim, label: str) -> Measure:
    return cells_attack(Laplace(scale), 1, claim, label)


def _one_run(attack: Attack) -> Measurement:
    mechanism = Laplace(2.0 / EPSILON)
    claim = Claim(EPSILON)
    probe = cells_probe(mechanism, 4, "H=1, every user a canary")
    return measure_one_run(probe, claim, ProbeProof.of(mechanism.curve(Sensitivity.of_cells(4)), claim), attack)


def _printed(lemma: PrintedLemma, n_families: int) -> Scale:
    """Return a paper's scale as `calibration: printed` runs it: a family's L1 change is taken to be H (D3)."""

    def scale(horizon: int, episodes: int) -> float:
        # One cell wide: no scale depends on the width.
        families = CountFamilies(horizon, tuple(CountFamily(f"{i}", 1, 2) for i in range(n_families)))
        return lemma.scale(families, episodes - 1, EPSILON)

    return scale


def _with_another_log(scale: Scale) -> Scale:
    """Return `scale` times ln K: the printed parameter handed to a mechanism that divides by log K itself."""
    return lambda horizon, episodes: scale(horizon, episodes) * math.log(episodes)


def _inverted(scale: Scale) -> Scale:
    """Return the scale of noise Lap(1/epsilon') read literally, where epsilon' is the printed `scale` (D1, D2)."""
    return lambda horizon, episodes: 1.0 / scale(horizon, episodes)


def _certified(families: int) -> Scale:
    return lambda horizon, episodes: 2.0 * horizon * families * (episodes - 1).bit_length() / EPSILON


_CENTRAL, _LOCAL = (_printed(lemma, _CZ22) for lemma in (PRINTED[_CZ22_NAME].central, PRINTED[_CZ22_NAME].local))
_QW24_CENTRAL, _QW24_LOCAL = (
    _printed(lemma, _QW24) for lemma in (PRINTED[_QW24_NAME].central, PRINTED[_QW24_NAME].local)
)


def floating_point_claim() -> Entry:
    """Return what float64 noise on a count gives away, whatever its scale."""
    scale = 10.0
    claim = Claim(1.0 / scale, source="any float64 sampler")
    # In [2^-(k+1), 2^-k) one float64 in 2^k is a multiple of 2^-53: the sum over k >= 2 of what is not weighs 5/24 / b.
    at_claim = 5.0 / (24.0 * scale)
    unbounded = NoiseProof(math.inf, None, math.inf, at_claim)
    laplace = FloatingPointEvent(Laplace(scale))
    return Entry(
        "F",
        "count + float64 Lap(10)",
        claim,
        lambda: unbounded,
        partial(measure, laplace, claim, ProbeProof(math.inf, at_claim)),
        runs=400_000,
        note="low bits of a sum tell the count (Mironov 2012); integers do not have them",
    )


def _central_claims() -> list[Entry]:
    """Return the claims on binary trees."""
    qw24, cz22 = Claim(EPSILON, source=_QW24_NAME), Claim(EPSILON, source=_CZ22_NAME)
    log, loglog = _QW24_CENTRAL, _with_another_log(_QW24_CENTRAL)
    return [
        Entry(
            "C1",
            "tree, Lap(2H log K/eps)",
            qw24,
            partial(_central, _QW24, log, qw24),
            _central_probe(_QW24, log, qw24, horizon=2, episodes=5),
            runs=2_000_000,
            note="an item is in ceil(log2 K) nodes, not ln K, and a replaced user changes 2H cells of a family, not H",
        ),
        Entry(
            "C1'",
            "tree, Lap(2H (log K)^2/eps)",
            qw24,
            partial(_central, _QW24, loglog, qw24),
            _central_probe(_QW24, loglog, qw24, horizon=1, episodes=24),
            runs=100_000,
            note="holds for K >= 24; more noise than needed, and not the printed error bound",
        ),
        Entry(
            "C2",
            "tree, Lap(3H log K/eps)",
            cz22,
            partial(_central, _CZ22, _CENTRAL, cz22),
            _central_probe(_CZ22, _CENTRAL, cz22, horizon=1, episodes=3),
            runs=1_000_000,
            note="as C1",
        ),
        Entry(
            "C2'",
            "tree, Lap(eps/(3H log K))",
            cz22,
            partial(_central, _CZ22, _inverted(_CENTRAL), cz22),
            _one_cell(_inverted(_CENTRAL)(HORIZON, EPISODES), cz22, "one cell, one node"),
            runs=10_000,
            note="as printed literally: the scale is upside down",
        ),
    ]


def _local_claims() -> list[Entry]:
    """Return the claims on reports."""
    qw24, cz22 = Claim(EPSILON, source=_QW24_NAME), Claim(EPSILON, source=_CZ22_NAME)
    return [
        Entry(
            "L1",
            "report, Lap(2H/eps)",
            qw24,
            partial(_local, _QW24, _QW24_LOCAL, qw24),
            _local_probe(_QW24, _QW24_LOCAL, qw24, horizon=1),
            runs=1_000_000,
            note="the L1 sensitivity of a family is 2H, not H",
        ),
        Entry(
            "L1 run",
            "report, the same, one run",
            qw24,
            partial(_local, _QW24, _QW24_LOCAL, qw24),
            _one_run,
            runs=4_000,
            note="every user of one run is a canary; costs nothing, says less",
        ),
        Entry(
            "L2",
            "report, Lap(3H/eps)",
            cz22,
            partial(_local, _CZ22, _LOCAL, cz22),
            _local_probe(_CZ22, _LOCAL, cz22, horizon=1),
            runs=1_000_000,
            note="as L1",
        ),
        Entry(
            "L2'",
            "report, Lap(eps/(3H))",
            cz22,
            partial(_local, _CZ22, _inverted(_LOCAL), cz22),
            _one_cell(_inverted(_LOCAL)(HORIZON, EPISODES), cz22, "one cell"),
            runs=10_000,
            note="as printed literally: the scale is upside down",
        ),
    ]


def tabular_claims() -> list[Entry]:
    """Return the claims on counts."""
    return [*_central_claims(), *_local_claims()]


def _counter_control(name: str, counter: AnyCounter, delta: float) -> Entry:
    """Return certified noise of the least scale on a counter's prefixes, one family and one step."""
    claim, row = Claim(EPSILON, delta, "certified"), Sensitivity.of_cells(2)
    law = Gaussian if delta > 0.0 else Laplace
    node = law.calibrated(EPSILON, delta, counter.sensitivity(row))
    noisy = replace(counter, node=node)
    proof = proof_of(node.curve(noisy.sensitivity(row)), claim, exact=True)
    attack = counter_probe(noisy, row.cells, claim, f"H=1 T={counter.n_items}")
    return Entry(name, f"{counter.name}, {node.name}", claim, lambda: proof, attack, runs=50_000)


def tabular_controls() -> list[Entry]:
    """Return certified noise for the same releases: none of it may be refuted."""
    ours = Claim(EPSILON, source="certified")
    return [
        _counter_control("C3 ok", KaryTree(4).suited("l1"), 0.0),
        _counter_control("C4 ok", NormalizedSquareRoot(4), _SMALL_DELTA),
        Entry(
            "C1 ok",
            "tree, Lap(4HL/eps), two families",
            ours,
            partial(_central, _QW24, _certified(_QW24), ours),
            _central_probe(_QW24, _certified(_QW24), ours, horizon=2, episodes=5),
            runs=400_000,
        ),
        Entry(
            "C2 ok",
            "tree, Lap(2HL/eps), one family",
            ours,
            partial(_central, 1, _certified(1), ours),
            _central_probe(1, _certified(1), ours, horizon=1, episodes=3),
            runs=400_000,
        ),
        Entry(
            "L1 ok",
            "report, Lap(2H/eps), one family",
            ours,
            partial(_local, 1, _QW24_LOCAL, ours),
            _local_probe(1, _QW24_LOCAL, ours, horizon=1),
            runs=1_000_000,
        ),
    ]
