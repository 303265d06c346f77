"""What `dprl audit` does: attacks the noise of a config's cells, of one mechanism, or of every paper's claims.

A cell is attacked through the privatizer that its run would use, at a probe of few steps and users: a violation that is
spread over many cells has a probability that no sampling can see, the same noise at H = 1 does not hide it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

from dprl.platform.configs.config import config_files, load_cells
from dprl.platform.configs.experiment import Experiment
from dprl.platform.configs.sections import field_names
from dprl.platform.errors import UserError, below, broken_rule, suggestion
from dprl.platform.gradient_auditing import claim_of, gradient_entries, gradient_last_bits
from dprl.platform.message_auditing import bit_entries, message_last_bits, statistics_entries
from dprl.platform.reports.audits import block, papers_text
from dprl.privacy import PrivacyConfig, Privatizer, Streams
from dprl.privacy.audits.findings import (
    Claim,
    Finding,
    Measurement,
    NoiseProof,
    ProbeProof,
    audit_summary,
    proof_of,
)
from dprl.privacy.audits.mechanisms_audited import mechanism_entries, mechanism_names
from dprl.privacy.audits.page import Entry, audit_page
from dprl.privacy.audits.papers import audit_papers
from dprl.privacy.audits.probes_privatizers import (
    CentralPrefixes,
    LocalReports,
    probe_families,
)
from dprl.privacy.audits.side_channels import NOISY_CHANNELS, Message, measure_channels, recorded_run
from dprl.privacy.audits.two_worlds import Attack, Probe, measure
from dprl.privacy.audits.white_box import recomputed_epsilon
from dprl.privacy.mechanisms.base import IDEALISED
from dprl.privacy.randomness.settings import NoiseConfig

DEFAULT_RUNS = 50_000
ALPHA = 0.05
_FEWEST_RUNS, _MOST = 100, 2**31
PROBES = ((1, 3), (2, 5))
"""(H, K) of the probes."""

_CHECK_TOLERANCE = 1e-6
_PROBES_OF: dict[str, Callable[[Privatizer, str], Probe]] = {"jdp": CentralPrefixes, "ldp": LocalReports}


@dataclass(frozen=True)
class Answer:
    """What the command says: as text, as JSON-ready data, and whether something was refuted."""

    text: str
    data: object
    violated: bool


def audit_command(options: argparse.Namespace, labels: Callable[[Sequence[Experiment]], list[str]]) -> Answer:
    """Return what `dprl audit` says to its options. Raises UserError on bad input.

    labels: names the cells of a config.
    """
    seed = _whole_number("--seed", options.seed, 0, "write e.g. --seed 1")
    runs = None if options.runs is None else _whole_number("--runs", options.runs, _FEWEST_RUNS, "write e.g. 100000")
    if options.papers:
        return _audit_papers(options, seed)
    if options.target is None:
        raise UserError("CONFIG|MECHANISM: is required, got nothing; name one, or write --papers")
    if options.target in mechanism_names() and not Path(options.target).exists():
        if options.set:
            raise broken_rule(
                "--set", "must be left out with a mechanism", options.set[0], "name a config to set it in"
            )
        findings = audit_mechanism(options.target, runs, seed)
        data = {"mechanism": options.target, "findings": [finding.to_dict() for finding in findings]}
        return Answer(block(options.target, findings), [data], any(finding.violated for finding in findings))
    return _audit_config(options, labels, runs or DEFAULT_RUNS, seed)


def _audit_papers(options: argparse.Namespace, seed: int) -> Answer:
    for name, given in (("CONFIG|MECHANISM", options.target), ("--set", options.set), ("--runs", options.runs)):
        if given:
            raise broken_rule(name, "must be left out with --papers", given, "its claims and runs are fixed")
    start = time.monotonic()
    page = audit_papers(seed)
    text = papers_text(page, time.monotonic() - start)
    return Answer(text, page.to_dict(), page.inconsistent)


def _audit_config(
    options: argparse.Namespace, labels: Callable[[Sequence[Experiment]], list[str]], runs: int, seed: int
) -> Answer:
    known = list(config_files())
    if not Path(options.target).exists() and options.target not in known:
        remedy = suggestion(options.target, [*mechanism_names(), *known])
        raise broken_rule("CONFIG|MECHANISM", "must be a config or a mechanism", options.target, remedy)
    cells = load_cells(options.target, options.set)
    texts, data, violated = [], [], False
    for cell, label in zip(cells, labels(cells), strict=True):
        try:
            findings = audit_experiment(cell, runs, seed)
        except ValueError as error:
            raise UserError(f"{label}: {below('privacy', field_names(type(cell.privacy)), str(error))}") from None
        last_bits = _LAST_BITS[cell.algorithm.releases](cell.privatizer())
        texts.append(block(label, findings, last_bits))
        found = {
            "findings": [finding.to_dict() for finding in findings],
            "summary": audit_summary(findings),
            "last_bits": last_bits,
        }
        data.append({"cell": cell.digest, "parameters": cell.parameters(), **found})
        violated |= any(finding.violated for finding in findings)
    return Answer("\n\n".join(texts), data, violated)


def _whole_number(name: str, text: str, least: int, remedy: str) -> int:
    try:
        value = int(float(text)) if float(text).is_integer() else -1
    except (ValueError, OverflowError):
        value = -1
    if not least <= value <= _MOST:
        raise broken_rule(name, f"must be a whole number from {least} to {_MOST}", text, remedy)
    return value


def audit_experiment(experiment: Experiment, runs: int = DEFAULT_RUNS, seed: int = 0) -> list[Finding]:
    """Return what is found about one cell: attacks on its noise and the deterministic-channel test.

    All measured bounds hold together with 95 % confidence. Raises ValueError if the settings do not fit together.
    """
    entries = _ENTRIES[experiment.algorithm.releases](experiment, runs, seed)
    attacks, (unsampled,) = entries[:-1], entries[-1:]
    return [*audit_page(attacks, seed, ALPHA), unsampled.audit(Attack(seed=seed))]


def _entries_of_counts(experiment: Experiment, runs: int, seed: int) -> list[Entry]:
    """Return two attacks and the test of channels."""
    privatizer = cast(Privatizer, experiment.privatizer())
    claim = claim_of(privatizer)
    prove = partial(_proof, privatizer, claim)
    subject = _noise(privatizer)
    attacks = [
        Entry(f"H={h} K={k}", subject, claim, prove, _attack(experiment, h, k, seed), runs)
        for h, k in (PROBES if privatizer.trust_model in _PROBES_OF else ())
    ]
    channels = partial(_channels, experiment, privatizer, claim)
    return [*attacks, Entry("channels", subject, claim, prove, channels, runs=1)]


_ENTRIES: dict[str, Callable[[Experiment, int, int], list[Entry]]] = {
    "counts": _entries_of_counts,
    "gradients": gradient_entries,
    "statistics": statistics_entries,
    "bits": bit_entries,
}
"""The attacks on a cell, the test of its channels last, by what its users release."""


def attached_audit(experiment: Experiment) -> dict[str, Any]:
    """Return what a run's certificate keeps of its audit; a run is not lost because its noise has no small probe."""
    try:
        return audit_summary(audit_experiment(experiment))
    except ValueError as error:
        return {"verdict": "not sampled", "note": f"the probe cannot be built: {error}"}


def audit_mechanism(name: str, runs: int | None = None, seed: int = 0) -> list[Finding]:
    """Return what is found about the mechanism `name` at its worst pair; raise KeyError for an unknown name."""
    return audit_page(mechanism_entries(name) if runs is None else mechanism_entries(name, runs), seed, ALPHA)


def probe_privatizer(experiment: Experiment, horizon: int, episodes: int, seed: int = 0) -> Privatizer:
    """Return what the cell's privacy settings make of its algorithm's families, in fewer steps and episodes."""
    families = probe_families(cast(Privatizer, experiment.privatizer()).families, horizon)
    # What the operating system gives cannot be drawn twice; the law of the noise is the same.
    streams = Streams(seed, f"audit|{experiment.digest}", NoiseConfig(experiment.noise.arithmetic, "seed"))
    return cast(PrivacyConfig, experiment.privacy).build(families, episodes - 1, streams)


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


def _last_bits(privatizer: Any) -> str | None:  # noqa: ANN401 - a Privatizer, by what its config releases
    """Return what a reader should know of float64 noise; None where noise is not idealised."""
    report, counter, _ = privatizer.noise
    noise = report or counter.node
    if noise is None or noise.arithmetic != IDEALISED:
        return None
    told = f"float64 noise on counts can be told apart: see dprl audit {noise.name}"
    return f"{told}; arithmetic: exact has no such bits"


_LAST_BITS: dict[str, Callable[[Any], str | None]] = {
    "counts": _last_bits,
    "gradients": gradient_last_bits,
    "statistics": message_last_bits,
    "bits": message_last_bits,
}


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
