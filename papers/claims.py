"""The papers' claims on privacy as one table, with their proofs and attacks: `dprl audit --papers`.

The example is epsilon = 1, H = 5 steps, K = 1000 episodes; messages of 8 numbers for gradients; for Gram matrices
n = 2 agents of d = 2 features, after the clips that the proofs take for granted. Sampling attacks smaller instances,
where the same privacy loss comes from fewer cells and is seen more often. There users start in a known state and take a
known first action, so the counts of step 1 that depend on these do not change.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from dprl.papers.refuted_formulas import PrintedRandomSign, printed_bounded_laplace_delta, printed_bounded_laplace_probe
from dprl.platform.reports.audits import finding_row, limit_text
from dprl.platform.reports.terminal import Table, facts_text, table_text
from dprl.privacy import StatisticsLayout, StatisticsPrivacy
from dprl.privacy.accounting.closed_forms import PrivacyCurve, RandomizedResponses, gaussian_mu
from dprl.privacy.audits import message_probes as probes
from dprl.privacy.audits.distinguishing_attack import ALPHA, Probe, audit_page, measure
from dprl.privacy.audits.findings import NOTHING_PROVED, Claim, Finding, Measurement, NoiseProof, proof_of
from dprl.privacy.audits.message_probes import changed_cells, noisy_cells
from dprl.privacy.audits.privatizer_probes import counter_prefixes
from dprl.privacy.base import Float64Array, Sensitivity, TrustModel
from dprl.privacy.counters import BinaryTree
from dprl.privacy.counters.base import Counter as NoisyCounter
from dprl.privacy.counters.base import node_of
from dprl.privacy.designs.counts import printed_scale
from dprl.privacy.mechanisms import gram
from dprl.privacy.mechanisms.base import Mechanism
from dprl.privacy.mechanisms.bounded import BoundedLaplace
from dprl.privacy.mechanisms.gaussian import Gaussian
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.mechanisms.projected_random_sign import ProjectedRandomSign
from dprl.privacy.mechanisms.vectors import ClippedLaplace
from dprl.privacy.randomness.streams import Streams

EPSILON, DELTA, HORIZON, EPISODES = 1.0, 1e-5, 5, 1000
_CLIP, _NUMBERS, _SUBMISSIONS, _REWARD_FEATURES = 0.01, 8, 10, 3

Guarantee = PrivacyCurve | NoiseProof
Scale = Callable[[int, int], float]
"""Scale of Laplace noise as a function of (H, K)."""
Expected = Literal["refuted", "fails by proof", "stands", "claims nothing"]


class Noise(NamedTuple):
    """A release by two neighbours, to be attacked, and its guarantee."""

    probe: Probe
    guarantee: Guarantee


class Row(NamedTuple):
    """A claim with its proof and attack, and the expected outcome of both."""

    finding: Finding
    expected: Expected

    @property
    def outcome(self) -> Expected:
        """Outcome of proof and attack."""
        if math.isinf(self.finding.claim.epsilon):
            return "claims nothing"
        if self.finding.verdict == "refuted":
            return "refuted"
        return "fails by proof" if self.finding.violated else "stands"


def row(
    name: str,
    claim: Claim,
    subject: str,
    expected: Expected,
    noise: Noise | Guarantee,
    probe: Noise | None = None,
    runs: int = 100_000,
    note: str = "",
) -> Row:
    """Return a row. noise: that of the claim. probe: an instance to attack, None if no attack can show a loss."""

    def proof(guarantee: Guarantee) -> NoiseProof:
        return guarantee if isinstance(guarantee, NoiseProof) else proof_of(guarantee, claim)

    attack = None if probe is None else partial(measure, probe.probe, claim, proof(probe.guarantee))
    proved = proof(noise.guarantee if isinstance(noise, Noise) else noise)
    return Row(Finding(name, subject, claim, proved, None, note, attack, runs), expected)


# ---- counts ----


def printed(model: TrustModel, families: int) -> Scale:
    """Return a paper's scale as `calibration: printed` runs it: a family's L1 change is taken to be H (D3)."""
    return lambda horizon, episodes: printed_scale(model, families, horizon, episodes - 1, EPSILON)


def inverted(scale: Scale) -> Scale:
    """Return the scale of noise Lap(1/epsilon') read literally, where epsilon' is the printed `scale` (D1, D2)."""
    return lambda horizon, episodes: 1.0 / scale(horizon, episodes)


def prefixes(counter: NoisyCounter, cells: int, label: str) -> Noise:
    """Return all prefixes of a counter, of which the first user changes `cells` cells."""
    curve = node_of(counter).curve(counter.sensitivity(Sensitivity.of_cells(cells)))
    return Noise(counter_prefixes(counter, *changed_cells(cells), label), curve)


def tree(families: int, scale: Scale, horizon: int = HORIZON, episodes: int = EPISODES, known: int = 0) -> Noise:
    """Return a binary tree with 2 H F changed cells, less those `known` at a public start."""
    counter = BinaryTree(episodes - 1, Laplace(scale(horizon, episodes)))
    return prefixes(counter, 2 * horizon * families - known, f"H={horizon} K={episodes}")


def report(families: int, scale: Scale, horizon: int = HORIZON) -> Noise:
    """Return a local report with 2 H F changed cells."""
    return laplace_cells(scale(horizon, EPISODES), 2 * horizon * families, f"H={horizon}, one report")


def laplace_cells(scale: float, cells: int, label: str) -> Noise:
    """Return changed cells with Laplace noise."""
    law = Laplace(scale)
    return Noise(noisy_cells(law, *changed_cells(cells), label), law.curve(Sensitivity.of_cells(cells)))


def number(law: Mechanism, change: float, label: str) -> Noise:
    """Return one noisy number with this change."""
    return Noise(noisy_cells(law, (change,), (0.0,), label), law.curve(Sensitivity.of_cells(1, change)))


TREE_2, TREE_3, REPORT_2, REPORT_3 = (printed(model, n) for model in ("jdp", "ldp") for n in (2, 3))
TREE_UP, REPORT_UP = inverted(TREE_3), inverted(REPORT_3)


def tree_log(horizon: int, episodes: int) -> float:
    """Return [QW24]'s printed parameter, handed to a mechanism that divides by log K itself."""
    return TREE_2(horizon, episodes) * math.log(episodes)


# fmt: off
def count_claims() -> list[Row]:
    """Return the claims of [QW24] and [CZ22] on binary trees and on reports."""
    lemma_5_1, lemma_5_4 = (Claim(EPSILON, source=f"[QW24] Lemma {place}") for place in ("5.1", "5.4"))
    lemma_3, lemma_4 = (Claim(EPSILON, source=f"[CZ22] Lemma {place}") for place in ("3", "4"))
    node = laplace_cells(TREE_UP(HORIZON, EPISODES), 1, "one cell, one node")
    cell = laplace_cells(REPORT_UP(HORIZON, EPISODES), 1, "one cell")
    upside_down = "as printed literally: the scale is upside down"
    return [
        row("C1", lemma_5_1, "tree, Lap(2H log K/eps)", "refuted",
            tree(2, TREE_2), tree(2, TREE_2, 2, 5, known=2), 2_000_000,
            "an item is in ceil(log2 K) nodes, not ln K, and a replaced user changes 2H cells of a family, not H"),
        row("C1'", lemma_5_1, "tree, Lap(2H (log K)^2/eps)", "stands",
            tree(2, tree_log), tree(2, tree_log, 1, 24, known=2),
            note="holds for K >= 24; more noise than needed, and not the printed error bound"),
        # With costs, a public start saves three cells: the two of C_1(s,a) become one.
        row("C2", lemma_3, "tree, Lap(3H log K/eps)", "refuted",
            tree(3, TREE_3), tree(3, TREE_3, 1, 3, known=3), 1_000_000, "as C1"),
        row("C2'", lemma_3, "tree, Lap(eps/(3H log K))", "refuted",
            tree(3, TREE_UP), node, 10_000, upside_down),
        row("L1", lemma_5_4, "report, Lap(2H/eps)", "refuted",
            report(2, REPORT_2), report(2, REPORT_2, 1), 1_000_000, "the L1 sensitivity of a family is 2H, not H"),
        row("L2", lemma_4, "report, Lap(3H/eps)", "refuted",
            report(3, REPORT_3), report(3, REPORT_3, 1), 1_000_000, "as L1"),
        row("L2'", lemma_4, "report, Lap(eps/(3H))", "refuted",
            report(3, REPORT_UP), cell, 10_000, upside_down),
    ]
# fmt: on


# ---- gradients ----


def raw(name: str, claim: Claim, subject: str, expected: Expected, sent: Sequence[ArrayLike], note: str) -> Row:
    """Return the claim on a message without noise. sent: by two neighbours, who differ with certainty."""

    def compared(**_: object) -> Measurement:
        differ = not np.array_equal(sent[0], sent[1])
        bounds = (math.inf, 1.0) if differ else (0.0, 0.0)
        told = f"{subject}: {'not ' * differ}the same"
        return Measurement("same seeds", told, claim, NOTHING_PROVED, *bounds, confidence=1.0, runs=1)

    everything = NoiseProof(math.inf, None, math.inf, 1.0, raw=True)
    return Row(Finding(name, subject, claim, everything, None, note, compared, 1), expected)


# fmt: off
def gradient_claims() -> list[Row]:
    """Return the claims of [OT20] on messages of PGC-A3C."""
    laplace = ClippedLaplace.calibrated(EPSILON, 0.0, _NUMBERS, _CLIP)
    signs = ProjectedRandomSign.calibrated(5.0, 0.0, _NUMBERS, _CLIP)
    each = Laplace(_CLIP * _SUBMISSIONS / EPSILON)
    ones, zeros = (_CLIP / 2,) * _SUBMISSIONS, (-_CLIP / 2,) * _SUBMISSIONS
    submissions = noisy_cells(each, ones, zeros, f"{_SUBMISSIONS} submissions of +-C/2 e_1")
    composed = RandomizedResponses(_SUBMISSIONS, _CLIP / each.scale)
    sign = PrintedRandomSign(epsilon=5.0, dimension=2, k=1)
    literal = NoiseProof(sign.pure_epsilon, "exact", sign.pure_epsilon, sign.delta(5.0))
    return [
        row("A1", Claim(EPSILON, source="[OT20] Algorithm 2"), "clip C/2, Lap(C/eps)", "stands",
            laplace.curve(), Noise(probes.clipped_gradients(laplace), laplace.curve()),
            note="for the message's content; not for scores, timing and order"),
        row("A2", Claim(5.0, source="[OT20] Algorithm 3"), "random sign, eps/d_hat each", "stands",
            signs.curve(), Noise(probes.sign_gradients(signs), signs.curve())),
        row("A2 k=1", Claim(5.0, source="[OT20] eq. (24)"), "random sign, e^(eps/k), k=1", "refuted",
            literal, Noise(sign.probe, literal), 400_000, "k is not defined; only k = d is private as claimed"),
        row("A3", Claim(EPSILON, source="[OT20] sec. 3.2.1"), f"{_SUBMISSIONS} submissions at eps/{_SUBMISSIONS}",
            "stands", composed, Noise(submissions, composed), note="if T is a fixed cap that the ledger enforces"),
        # D5: how long the pole stood. One user's pole stands to the end of the episode, the other's does not.
        raw("A4", Claim(math.inf, source="[OT20] sec. 4"), "raw score", "claims nothing", (12.0, 200.0),
            "not private, says the paper; its loop uses it"),
    ]
# fmt: on


# ---- Gram matrices ----


def gram_noise(mechanism: str, agents: int, features: int) -> gram.Gram:
    """Return noise of the printed scale after the clips, for agents with `features` features each and known rewards."""
    layout = StatisticsLayout(HORIZON, agents * features, agents, agents, _REWARD_FEATURES)
    delta = DELTA if mechanism in (gram.GramGaussian.name, gram.GramUniform.name) else 0.0
    settings = {"calibration": "printed", "clipping": "device", "rewards": "public", "bound_ratio": 1.0}
    config = StatisticsPrivacy("ldp", EPSILON, delta, mechanism=mechanism, **settings)  # type: ignore[arg-type]
    return cast(gram.Gram, config.build(layout, 1, Streams(0, "printed noise")).query.law)


def gram_proof(noise: gram.Gram, claim: Claim) -> NoiseProof:
    """Return the guarantee of noise, and that attained by a pair of neighbours with nearly the largest L1 distance."""
    found, d = proof_of(noise.curve(), claim, exact=False), noise.release.dimension
    if isinstance(noise, gram.GramLaplace):
        return replace(found, attained_epsilon=found.pure_epsilon * l1_lower(d) / gram.l1_upper(d))
    if isinstance(noise, gram.GramUniform | gram.GramBoundedLaplace):
        attained = mass_outside(noise.stage_mechanisms(1)[0], changed_numbers(noise.release))
        return replace(found, attained_delta=attained)
    return found


def l1_lower(dimension: int) -> float:
    """Return c_lo: the L1 distance, in units of m^2, of the pair that `attaining_pair` returns, V = m."""
    if dimension == 1:
        return 2.0
    d = dimension - dimension % 2
    return (d + 1) / math.sqrt(2.0) + math.sqrt(2.0 * d) * math.cos(math.pi / 8.0)


def changed_numbers(release: gram.GramRelease) -> Float64Array:
    """Return the changes between two neighbours of all numbers of an episode's messages; they nearly attain L1."""
    changes = []
    rows, columns = np.triu_indices(release.dimension)
    for m in release.bounds:
        phi, other = gram.attaining_pair(release.dimension, m)
        matrix = np.outer(phi, phi) - np.outer(other, other)
        changes += [np.abs(matrix[rows, columns]), np.abs(phi - other) * m]
    return np.tile(np.concatenate(changes), release.n_messages)


def mass_outside(mechanism: Mechanism, changes: Float64Array) -> float:
    """Return the probability that bounded noise identifies the neighbour: 1 - prod_j (1 - mass outside of j)."""
    size, count = np.unique(np.round(changes[changes > 0.0], 9), return_counts=True)
    inside = [1.0 - mechanism.curve(Sensitivity.of_cells(1, v)).delta(math.inf) for v in size.tolist()]
    return float(-np.expm1(np.sum(count * np.log(inside))))


def most_agents_of_printed_gaussian(horizon: int, epsilon: float, delta: float) -> int:
    """Return the largest n for which the printed sigma is (epsilon, delta)-LDP, m_h = H - h; [TH23] has no limit."""
    per_agent = gram.JOINT_L2_SQUARED * math.fsum(m**4 for m in range(1, horizon))
    largest = gaussian_mu(epsilon, delta) * gram.printed_gaussian_sigma(horizon, epsilon, delta)
    return math.floor(largest**2 / per_agent)


def _first_number(noise: gram.Gram) -> Noise:
    """Return one number of a message at stage 1."""
    change = 2.0 * (HORIZON - 1) ** 2  # of phi V: from m^2 to -m^2, m = H - 1
    return number(noise.stage_mechanisms(1)[0], change, f"one number, changed by {change:.4g}")


# fmt: off
def gram_claims() -> list[Row]:
    """Return the claims of [TH23] on noise for Gram matrices."""
    normal = cast(gram.GramGaussian, gram_noise(gram.GramGaussian.name, 2, 2))
    flat, narrow = (gram_noise(law.name, 2, 2) for law in (gram.GramUniform, gram.GramBoundedLaplace))
    theorem_1, theorem_3 = Claim(EPSILON, DELTA, "[TH23] Theorem 1"), Claim(EPSILON, source="[TH23] Theorem 3")
    theorem_5, theorem_7 = Claim(0.0, DELTA, "[TH23] Theorem 5"), Claim(EPSILON, source="[TH23] Theorem 7")
    sigma, excess = normal.scales[0], gaussian_mu(EPSILON, DELTA) / normal.mu
    most = most_agents_of_printed_gaussian(HORIZON, EPSILON, DELTA)
    agents = f"holds for n <= {most}, here with {excess:.1f} times the noise it needs"
    one_sided = printed_bounded_laplace_probe(scale=1.0, bound=30.0, change=0.1)
    outside = NoiseProof(math.inf, None, math.inf, printed_bounded_laplace_delta(0.1, 1.0, 30.0))
    five = number(BoundedLaplace(1.0, 5.0), 0.1, "one number, B=5b")
    return [
        # D6: agents pass on w + gamma (r - rbar) psi, which shows the features psi of the visited one of two states.
        raw("M0", Claim(EPSILON, source="[TH23] Algorithm 1"), "w + gamma (r - rbar) psi", "refuted",
            [*(0.1 * np.eye(2))], "passed on without noise"),
        row("M1", theorem_1, "Gaussian, n=2 d=2", "stands", gram_proof(normal, theorem_1),
            number(Gaussian(sigma), normal.mu * sigma, "all messages along the worst direction"),
            note=f"sigma = 4H^3 sqrt(2 ln(2.5H/delta))/eps; {agents}"),
        row("M2", theorem_3, "Laplace, n=2 d=2", "stands",
            gram_proof(gram_noise(gram.GramLaplace.name, 2, 2), theorem_3),
            note="b = 4H^3 sqrt(nd)/eps"),
        row("M2 n=10", theorem_3, "Laplace, n=10 d=5", "fails by proof",
            gram_proof(gram_noise(gram.GramLaplace.name, 10, 5), theorem_3),
            note="grows like n sqrt(nd); lives at a delta below 1e-9, which no sampling can show"),
        row("M3", theorem_5, "uniform, n=2 d=2", "refuted", gram_proof(flat, theorem_5), _first_number(flat), 40_000,
            "a = 4H^3 sqrt(ln(2H/delta)); delta falls with 1/a only, and is the same at every epsilon"),
        row("M4", theorem_7, "bounded Laplace, B=b, n=d=2", "refuted",
            gram_proof(narrow, theorem_7), _first_number(narrow),
            note="outputs near an end of one neighbour's range cannot come from the other, for every finite B"),
        row("M4 B=5b", replace(theorem_7, epsilon=0.1), "bounded Laplace, B=5b", "refuted", five, five, 800_000,
            "the neighbours' supports differ, so there is no pure epsilon"),
        row("M4'", Claim(0.1, source="[TH23] eq. (78)"), "bounded Laplace, eq. (78)", "refuted",
            outside, Noise(one_sided, outside), 10_000,
            "inverts a distribution function that is wrong for x < 0: one-sided, whatever B is"),
    ]
# fmt: on


# ---- float64 ----


def floating_point_claim() -> Row:
    """Return the claim that float64 noise hides a count, which is false at every scale."""
    scale = 10.0
    # In [2^-(k+1), 2^-k), one float64 in 2^k is a multiple of 2^-53; the others, for k >= 2, have mass 5/24 / b.
    proof = NoiseProof(math.inf, None, math.inf, 5.0 / (24.0 * scale))
    claim = Claim(1.0 / scale, source="any float64 sampler")
    probe = Noise(probes.floating_point_event(Laplace(scale)), proof)
    note = "low bits of a sum tell the count (Mironov 2012); integers do not have them"
    return row("F", claim, "count + float64 Lap(10)", "refuted", proof, probe, 400_000, note)


# ---- the page ----


def paper_claims() -> list[Row]:
    """Return all printed claims."""
    return [*count_claims(), *gradient_claims(), *gram_claims(), floating_point_claim()]


class Audit(NamedTuple):
    """The audited claims."""

    claims: list[Row]

    @property
    def wrong_proofs(self) -> list[str]:
        """The rows where more was measured than is proved."""
        return [one.finding.name for one in self.claims if one.finding.contradicts_proof]

    def to_dict(self) -> dict[str, Any]:
        """Return the page as JSON-ready data."""
        claims = [{**one.finding.to_dict(), "expected": one.expected} for one in self.claims]
        return {"confidence": 1.0 - ALPHA, "claims": claims}


def audit_papers(seed: int = 0) -> Audit:
    """Attack all claims; all measured bounds together are wrong with probability 1e-6 at most."""
    claims = paper_claims()
    found = audit_page([one.finding for one in claims], seed)
    return Audit([one._replace(finding=finding) for one, finding in zip(claims, found, strict=True)])


_HEAD = ("", "from", "noise as printed", "claimed", "pure", "at a delta", "by proof", "measured*", "by sampling")
_TEXT = """\
The papers' claims as found by running. epsilon = 1, H = 5, K = 1000 where nothing else is said.
pure, at a delta: the pure epsilon, and an (epsilon, delta), of the noise; a..b: it lies between a and b.
measured: lower bounds of epsilon, or of delta, from runs; all together are wrong with probability 1e-6 at most.
* at a small instance of the same code, listed below

{claims}

{notes}

{rows} rows: {refuted} refuted by sampling, {failing} more by proof. {seconds:.0f} s
{unexpected}"""


def audit_text(page: Audit, seconds: float) -> str:
    """Return the table of all printed claims, why each wrong one is wrong, and the counts."""
    notes = []
    for finding in (one.finding for one in page.claims):
        measured = finding.measurement
        where = "" if measured is None else f"[{measured.probe}]{limit_text(measured)}"
        notes.append((finding.name, f"{finding.note} {where}".strip()))
    outcomes = Counter(one.outcome for one in page.claims)
    lines = [f"NOT AS EXPECTED: {one.finding.name}" for one in page.claims if one.outcome != one.expected]
    lines += [f"THE PROOF IS WRONG: {name}" for name in page.wrong_proofs]
    return _TEXT.format(
        claims=table_text(Table(_HEAD, [finding_row(one.finding) for one in page.claims], _HEAD)),
        notes=facts_text("Why, and where it was measured", notes),
        rows=len(page.claims),
        refuted=outcomes["refuted"],
        failing=outcomes["fails by proof"],
        seconds=seconds,
        unexpected="\n".join(lines),
    ).rstrip()
