"""The audit of a cell whose users release gradients: its own mechanism at its worst pair, and all that agents send."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np

from dprl.platform.audits.base import audit_streams, claim_of
from dprl.platform.configs.experiment import Experiment
from dprl.platform.errors import counted
from dprl.privacy import GradientPrivatizer, Release
from dprl.privacy.audits.findings import Claim, Measurement, ProbeProof, proof_of
from dprl.privacy.audits.mechanisms_audited import clipped_probe, privunit_probe
from dprl.privacy.audits.page import AuditCase
from dprl.privacy.audits.probes_vectors import SignMessages
from dprl.privacy.audits.side_channels import NOISY_MESSAGES, Message, measure_channels, recorded_submissions
from dprl.privacy.audits.two_worlds import Attack, Key, Probe, measure
from dprl.privacy.base import Float64Array
from dprl.privacy.ledgers.ledger import Account
from dprl.privacy.mechanisms import MessageMechanism
from dprl.privacy.mechanisms.gradients import ClippedGaussian, ClippedLaplace
from dprl.privacy.mechanisms.privunit import PrivUnit
from dprl.privacy.mechanisms.projected_random_sign import ProjectedRandomSign

_PROBES: dict[type[Any], Callable[[Any], Probe]] = {
    ClippedLaplace: clipped_probe,
    ClippedGaussian: clipped_probe,
    PrivUnit: privunit_probe,
    ProjectedRandomSign: SignMessages,
}
_COMPILED = (ProjectedRandomSign,)
_SLOW = 20
"""Other samplers are called once a run, so they have so many times fewer of them."""
_MOST_SUBMISSIONS = 16
"""Of one agent that an attack looks at together."""
_AGENTS = 3
"""Of the test of channels."""


@dataclass(frozen=True)
class _Together:
    """All submissions of one agent, the same ones in each world; a score is the sum of theirs."""

    one: Probe
    submissions: int

    @property
    def description(self) -> str:
        """The configuration."""
        if self.submissions == 1:
            return self.one.description
        return f"{self.submissions} submissions of {self.one.description}"

    def scores(self, world: int, runs: int, key: Key) -> Float64Array:
        """Return the scores of `runs` agents, float64[runs]."""
        every: Float64Array = self.one.scores(world, runs * self.submissions, key)
        return np.asarray(every.reshape(runs, self.submissions).sum(axis=1))


def gradient_entries(experiment: Experiment, runs: int, _: int) -> list[AuditCase]:
    """Return the attack on the mechanism that a cell's agents use, if it has one, and the test of what they send."""
    privatizer = cast(GradientPrivatizer, experiment.privatizer())
    claim, ledger = claim_of(privatizer), privatizer.planned_ledger()
    prove = partial(proof_of, ledger.curve, claim, exact=ledger.attained, raw=ledger.has_raw_release)
    subject = ", ".join(_noise(release) for release in ledger.releases)
    if ledger.submissions > 1:
        subject += f", {ledger.submissions} submissions an agent"
    attacks = [
        AuditCase(release.channel, subject, claim, prove, _attack(release, ledger, claim), _runs(release, runs))
        for release in ledger.releases
        if type(release.mechanism) in _PROBES
    ]
    return [
        *attacks,
        AuditCase("channels", subject, claim, prove, partial(_channels, experiment, ledger, claim), runs=1),
    ]


def _runs(release: Release, runs: int) -> int:
    """Return how often a world is played."""
    return runs if isinstance(release.mechanism, _COMPILED) else max(1, runs // _SLOW)


def _noise(release: Release) -> str:
    """Return a release in a few words."""
    return _told(release.channel, release.mechanism)


def _told(name: str, mechanism: object) -> str:
    if mechanism is None:
        return f"{name}: no noise"
    scale = getattr(mechanism, "scale", None)
    return f"{name}: {getattr(mechanism, 'name', '')}" + ("" if scale is None else f", scale {scale:.4g}")


def _attack(release: Release, ledger: Account, claim: Claim) -> Callable[[Attack], Measurement]:
    mechanism: MessageMechanism = release.mechanism  # type: ignore[assignment]  # one of _PROBES
    together = ledger.submissions if ledger.submissions <= _MOST_SUBMISSIONS else 1
    probe = _Together(_PROBES[type(mechanism)](mechanism), together)
    return partial(measure, probe, claim, ProbeProof.of(ledger.curve, claim))


def _channels(experiment: Experiment, ledger: Account, claim: Claim, attack: Attack) -> Measurement:
    """Return what the deterministic-channel test says; only what the ledger has as noisy may differ."""
    noisy = NOISY_MESSAGES if not ledger.has_raw_release else ()
    proved = ProbeProof.of(ledger.curve, claim)

    def record(world: int) -> list[Message]:
        return recorded_submissions(_seeded(experiment, attack.seed), world, experiment.algorithm.name)

    return measure_channels(record, claim, proved, counted(_AGENTS, "submission"), noisy)


def _seeded(experiment: Experiment, seed: int) -> GradientPrivatizer:
    """Return the cell's privatizer for a few submissions."""
    streams = audit_streams(experiment, seed)
    made = experiment.algorithm.privatizer(experiment.env.build(), experiment.privacy, _AGENTS, streams)
    return cast(GradientPrivatizer, made)
