"""The audit of a cell whose users release counts: attacks on small probes of its noise, and all that leaves it.

A probe has few steps and users: a violation that is spread over many cells has a probability that no sampling can see,
the same noise at H = 1 does not hide it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import cast

from dprl.platform.audits.base import audit_streams, claim_of
from dprl.platform.configs.experiment import Experiment
from dprl.privacy import PrivacyConfig, Privatizer
from dprl.privacy.audits.findings import Claim, Measurement, NoiseProof, ProbeProof, proof_of
from dprl.privacy.audits.page import AuditCase
from dprl.privacy.audits.probes_privatizers import CentralPrefixes, LocalReports, probe_families
from dprl.privacy.audits.side_channels import NOISY_CHANNELS, Message, measure_channels, recorded_run
from dprl.privacy.audits.two_worlds import Attack, Probe, measure
from dprl.privacy.audits.white_box import recomputed_epsilon
from dprl.privacy.mechanisms.base import IDEALISED

PROBES = ((1, 3), (2, 5))
"""(H, K) of the probes."""

_CHECK_TOLERANCE = 1e-6
_PROBES_OF: dict[str, Callable[[Privatizer, str], Probe]] = {"jdp": CentralPrefixes, "ldp": LocalReports}


def count_entries(experiment: Experiment, runs: int, seed: int) -> list[AuditCase]:
    """Return two attacks and the test of channels."""
    privatizer = cast(Privatizer, experiment.privatizer())
    claim = claim_of(privatizer)
    prove = partial(_proof, privatizer, claim)
    subject = _noise(privatizer)
    attacks = [
        AuditCase(f"H={h} K={k}", subject, claim, prove, _attack(experiment, h, k, seed), runs)
        for h, k in (PROBES if privatizer.trust_model in _PROBES_OF else ())
    ]
    channels = partial(_channels, experiment, privatizer, claim)
    return [*attacks, AuditCase("channels", subject, claim, prove, channels, runs=1)]


def probe_privatizer(experiment: Experiment, horizon: int, episodes: int, seed: int = 0) -> Privatizer:
    """Return what the cell's privacy settings make of its algorithm's families, in fewer steps and episodes."""
    families = probe_families(cast(Privatizer, experiment.privatizer()).families, horizon)
    return cast(PrivacyConfig, experiment.privacy).build(families, episodes - 1, audit_streams(experiment, seed))


def _proof(privatizer: Privatizer, claim: Claim) -> NoiseProof:
    """Return what the cell's whole ledger proves, or what its noise objects give if that is more."""
    ledger = privatizer.planned_ledger()
    proof = proof_of(ledger.curve, claim, exact=ledger.attained, raw=ledger.has_raw_release)
    recomputed = recomputed_epsilon(privatizer, claim.delta)
    if recomputed > ledger.epsilon(claim.delta) * (1.0 + _CHECK_TOLERANCE):
        return NoiseProof(max(recomputed, proof.pure_epsilon), "exact", recomputed, 1.0)
    return proof


def _noise(privatizer: Privatizer) -> str:
    """Return the noise of a cell in a few words."""
    report, counter, _ = privatizer.noise
    families = len(privatizer.layout.released.families)
    if report is not None:
        return f"{report.name} reports, scale {report.scale:.4g}, released families: {families}"
    if counter.node is None:
        return "no noise"
    return f"{counter.name} of {counter.node.name}, scale {counter.node.scale:.4g}, released families: {families}"


def count_last_bits(privatizer: Privatizer) -> str | None:
    """Return what a reader should know of float64 noise; None where noise is not idealised."""
    report, counter, _ = privatizer.noise
    noise = report or counter.node
    if noise is None or noise.arithmetic != IDEALISED:
        return None
    told = f"float64 noise on counts can be told apart: see dprl audit {noise.name}"
    return f"{told}; arithmetic: exact has no such bits"


def _attack(experiment: Experiment, horizon: int, episodes: int, seed: int) -> Callable[[Attack], Measurement]:
    def run(attack: Attack) -> Measurement:
        privatizer = probe_privatizer(experiment, horizon, episodes, seed)
        claim = claim_of(privatizer)
        proved = ProbeProof.of(privatizer.planned_ledger().curve, claim)
        probe = _PROBES_OF[privatizer.trust_model](privatizer, f"H={horizon} K={episodes}")
        return measure(probe, claim, proved, attack)

    return run


def _channels(experiment: Experiment, privatizer: Privatizer, claim: Claim, attack: Attack) -> Measurement:
    """Return what the deterministic-channel test says; only what the ledger has as noisy may differ."""
    releases = privatizer.planned_ledger().releases
    noisy = NOISY_CHANNELS if all(release.mechanism is not None for release in releases) else ()
    horizon, episodes = PROBES[-1]

    def record(world: int) -> list[Message]:
        return recorded_run(
            probe_privatizer(experiment, horizon, episodes, attack.seed), world, experiment.algorithm.name
        )

    proved = ProbeProof.of(probe_privatizer(experiment, horizon, episodes).planned_ledger().curve, claim)
    return measure_channels(record, claim, proved, f"H={horizon} K={episodes}", noisy)
