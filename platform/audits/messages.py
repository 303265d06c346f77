"""The audit of a cell whose users send one message each, statistics or a bit: attacks on it, and all else that leaves.

Statistics are attacked in few dimensions: what a user changes is spread over all numbers of a message, and the more
there are, the less a sample of messages can show of the worst.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, cast

from dprl.platform.audits.base import audit_streams, claim_of
from dprl.platform.configs.experiment import Experiment
from dprl.platform.errors import counted
from dprl.privacy import BitPrivatizer, StatisticsPrivacyConfig, StatisticsPrivatizer
from dprl.privacy.accounting.composition import compose
from dprl.privacy.audits.findings import Claim, Measurement, NoiseProof, ProbeProof, proof_of
from dprl.privacy.audits.page import AuditCase, Measure
from dprl.privacy.audits.probes_messages import BitMessages, StatisticsMessages
from dprl.privacy.audits.side_channels import (
    Message,
    measure_channels,
    noisy_channels,
    recorded_bits,
    recorded_statistics,
)
from dprl.privacy.audits.two_worlds import Attack, measure
from dprl.privacy.ledgers.ledger import Account

PROBES = ((2, 2, 1), (3, 4, 2))
"""(H, D, n) of the probes of statistics."""
_LONG = 1000.0
"""Of features that no device cuts, in units of the bound."""
_USERS = 3
"""Of the test of channels."""


def statistics_entries(experiment: Experiment, runs: int, seed: int) -> list[AuditCase]:
    """Return attacks on messages of small probes, and the test of all that users send."""
    privatizer = cast(StatisticsPrivatizer, experiment.privatizer())
    claim, ledger = claim_of(privatizer), privatizer.planned_ledger()
    make = partial(AuditCase, subject=_told(ledger), claim=claim, prove=partial(_proof, ledger, claim))
    attacks = []
    if privatizer.trust_model != "none":
        reaches = (1.0,) if privatizer.clipped else (1.0, _LONG)
        attacks = [
            make(f"H={h} D={d}" + (" long" if reach > 1.0 else ""), measure=attack, runs=runs)
            for h, d, n in PROBES
            for reach in reaches
            for attack in [partial(_attack_statistics, experiment, (h, d, n), reach, seed)]
        ]
    record = partial(_recorded, experiment, recorded_statistics)
    return [*attacks, make("channels", measure=_channels(record, ledger, claim), runs=1)]


def bit_entries(experiment: Experiment, runs: int, _: int) -> list[AuditCase]:
    """Return the attack on the bit of one user, and the test of all that users send."""
    privatizer = cast(BitPrivatizer, experiment.privatizer())
    claim, ledger = claim_of(privatizer), privatizer.planned_ledger()
    make = partial(AuditCase, subject=_told(ledger), claim=claim, prove=partial(_proof, ledger, claim))
    attacks = []
    if privatizer.response is not None:
        attacks = [make("bit", measure=partial(_attack_bit, experiment), runs=runs)]
    record = partial(_recorded, experiment, recorded_bits)
    return [*attacks, make("channels", measure=_channels(record, ledger, claim), runs=1)]


def _proof(ledger: Account, claim: Claim) -> NoiseProof:
    return proof_of(ledger.curve, claim, exact=ledger.attained, raw=ledger.has_raw_release)


def _told(ledger: Account) -> str:
    """Return the releases in a few words."""
    return ", ".join(_noise(release.channel, release.mechanism) for release in ledger.releases)


def _noise(name: str, mechanism: Any) -> str:  # noqa: ANN401 - whatever a release has
    if mechanism is None:
        return f"{name}: no noise"
    scales = sorted({scale for scale in getattr(mechanism, "scales", ()) if scale > 0.0})
    scales = scales or [scale for scale in [getattr(mechanism, "scale", 0.0)] if scale]
    ends = [f"{scale:.4g}" for scale in dict.fromkeys((*scales[:1], *scales[-1:]))]
    return f"{name}: {mechanism.name}" + (f", scale {' to '.join(ends)}" if ends else "")


def _attack_statistics(
    experiment: Experiment, sizes: tuple[int, int, int], reach: float, seed: int, attack: Attack
) -> Measurement:
    h, d, _ = sizes
    made = probe_privatizer(experiment, sizes, seed)
    long = f", features {reach:g} times as long as H - h, which the device does not cut" if reach > 1.0 else ""
    agents = counted(made.layout.n_messages, "message")
    probe = StatisticsMessages(made.parts, f"H={h}, D={d}, {agents} a stage, those that change most{long}", reach)
    claim = claim_of(made)
    # Corrections that are sent as they are have no part in the attack: their proof is for the test of channels.
    noisy = [release.curve() for release in made.planned_ledger().releases if release.mechanism is not None]
    return measure(probe, claim, ProbeProof.of(compose(noisy), claim), attack)


def probe_privatizer(experiment: Experiment, sizes: tuple[int, int, int], seed: int = 0) -> StatisticsPrivatizer:
    """Return what the cell's privacy settings make of H stages, D dimensions and n agents with one message each."""
    (horizon, dimension, n), layout = sizes, cast(StatisticsPrivatizer, experiment.privatizer()).layout
    messages = 1 if layout.n_messages == 1 else n
    small = replace(layout, horizon=horizon, dimension=dimension, n_messages=messages, n_agents=n, reward_dimension=1)
    return cast(StatisticsPrivacyConfig, experiment.privacy).build(small, 1, audit_streams(experiment, seed))


def _attack_bit(experiment: Experiment, attack: Attack) -> Measurement:
    made = cast(BitPrivatizer, _seeded(experiment, attack.seed))
    claim = claim_of(made)
    return measure(BitMessages(made), claim, ProbeProof.of(made.planned_ledger().curve, claim), attack)


def _recorded(
    experiment: Experiment, record: Callable[[Any, int, str], list[Message]], seed: int, world: int
) -> list[Message]:
    return record(_seeded(experiment, seed), world, experiment.algorithm.name)


def _channels(record: Callable[[int, int], list[Message]], ledger: Account, claim: Claim) -> Measure:
    """Return the deterministic-channel test; only what the ledger has as noisy may differ."""
    noisy = noisy_channels(ledger)
    proved = ProbeProof.of(ledger.curve, claim)

    def run(attack: Attack) -> Measurement:
        return measure_channels(partial(record, attack.seed), claim, proved, counted(_USERS, "user"), noisy)

    return run


def _seeded(experiment: Experiment, seed: int) -> Any:  # noqa: ANN401 - what its algorithm makes
    """Return the cell's privatizer for a few users."""
    env, streams = experiment.env.build(), audit_streams(experiment, seed)
    return experiment.algorithm.privatizer(env, experiment.privacy, _USERS + 1, streams)
