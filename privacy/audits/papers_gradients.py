"""The claims of [OT20] on gradients, and certified noise."""

from __future__ import annotations

from functools import partial

from dprl.privacy.accounting.curves import RandomizedResponses
from dprl.privacy.audits.findings import Claim, ProbeProof, proof_of
from dprl.privacy.audits.mechanisms_audited import clipped_probe, privunit_probe
from dprl.privacy.audits.page import Entry
from dprl.privacy.audits.probes_cells import NoisyCells
from dprl.privacy.audits.probes_vectors import SignMessages
from dprl.privacy.audits.two_worlds import measure
from dprl.privacy.mechanisms.gradients import ClippedLaplace
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.mechanisms.privunit import PrivUnit
from dprl.privacy.mechanisms.projected_random_sign import ProjectedRandomSign

EPSILON, CLIP, DIMENSION = 1.0, 0.01, 8
_LARGE_EPSILON = 5.0
_SUBMISSIONS = 10
_SOURCE = "[OT20]"
_RUNS = 50_000


def gradient_claims() -> list[Entry]:
    """Return the claims on messages of PGC-A3C."""
    claim, large = Claim(EPSILON, source=_SOURCE), Claim(_LARGE_EPSILON, source=_SOURCE)
    laplace = ClippedLaplace.calibrated(EPSILON, 0.0, DIMENSION, CLIP)
    signs = ProjectedRandomSign.calibrated(_LARGE_EPSILON, 0.0, DIMENSION, CLIP)
    each = Laplace(CLIP * _SUBMISSIONS / EPSILON)
    submissions = NoisyCells(
        each, (CLIP / 2,) * _SUBMISSIONS, (-CLIP / 2,) * _SUBMISSIONS, f"{_SUBMISSIONS} submissions of +-C/2 e_1"
    )
    composed = RandomizedResponses(_SUBMISSIONS, CLIP / each.scale)
    return [
        Entry(
            "A1",
            "clip C/2, Lap(C/eps)",
            claim,
            lambda: proof_of(laplace.curve(), claim, exact=True),
            partial(measure, clipped_probe(laplace), claim, ProbeProof.of(laplace.curve(), claim)),
            runs=_RUNS,
            note="for the message's content; not for scores, timing and order",
        ),
        Entry(
            "A2",
            "random sign, eps/d_hat each",
            large,
            lambda: proof_of(signs.curve(), large, exact=True),
            partial(measure, SignMessages(signs), large, ProbeProof.of(signs.curve(), large)),
        ),
        Entry(
            "A3",
            f"{_SUBMISSIONS} submissions at eps/{_SUBMISSIONS}",
            claim,
            lambda: proof_of(composed, claim, exact=True),
            partial(measure, submissions, claim, ProbeProof.of(composed, claim)),
            note="if T is a fixed cap that the ledger enforces",
        ),
    ]


def gradient_controls() -> list[Entry]:
    """Return PrivUnit at the same epsilon: it may not be refuted."""
    claim = Claim(EPSILON, source="certified")
    mechanism = PrivUnit.calibrated(EPSILON, 0.0, DIMENSION)
    return [
        Entry(
            "A2 ok",
            "gradient, PrivUnit",
            claim,
            lambda: proof_of(mechanism.curve(), claim, exact=True),
            partial(measure, privunit_probe(mechanism), claim, ProbeProof.of(mechanism.curve(), claim)),
            runs=_RUNS,
        )
    ]
