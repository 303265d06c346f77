"""The audit of a cell, through the privatizer that its run would use, and of one mechanism."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dprl.platform.audits.base import last_bits_of
from dprl.platform.audits.counts import count_entries, count_last_bits
from dprl.platform.audits.gradients import gradient_entries
from dprl.platform.audits.messages import bit_entries, statistics_entries
from dprl.platform.configs.experiment import Experiment
from dprl.privacy.audits.findings import Finding, audit_summary
from dprl.privacy.audits.mechanisms_audited import mechanism_entries
from dprl.privacy.audits.page import AuditCase, audit_page
from dprl.privacy.audits.two_worlds import Attack

DEFAULT_RUNS = 50_000
ALPHA = 0.05

_ENTRIES: dict[str, Callable[[Experiment, int, int], list[AuditCase]]] = {
    "counts": count_entries,
    "gradients": gradient_entries,
    "statistics": statistics_entries,
    "bits": bit_entries,
}
"""The attacks on a cell, the test of its channels last, by what its users release."""

_LAST_BITS: dict[str, Callable[[Any], str | None]] = {
    "counts": count_last_bits,
    "gradients": last_bits_of,
    "statistics": last_bits_of,
    "bits": last_bits_of,
}
"""What a reader should know of the last bits of such messages."""


def audit_experiment(experiment: Experiment, runs: int = DEFAULT_RUNS, seed: int = 0) -> list[Finding]:
    """Return what is found about one cell: attacks on its noise and the deterministic-channel test.

    All measured bounds hold together with 95 % confidence. Raises ValueError if the settings do not fit together.
    """
    entries = _ENTRIES[experiment.algorithm.releases](experiment, runs, seed)
    attacks, (unsampled,) = entries[:-1], entries[-1:]
    return [*audit_page(attacks, seed, ALPHA), unsampled.audit(Attack(seed=seed))]


def attached_audit(experiment: Experiment) -> dict[str, Any]:
    """Return what a run's certificate keeps of its audit; a run is not lost because its noise has no small probe."""
    try:
        return audit_summary(audit_experiment(experiment))
    except ValueError as error:
        return {"verdict": "not sampled", "note": f"the probe cannot be built: {error}"}


def audit_mechanism(name: str, runs: int | None = None, seed: int = 0) -> list[Finding]:
    """Return what is found about the mechanism `name` at its worst pair; raise KeyError for an unknown name."""
    return audit_page(mechanism_entries(name) if runs is None else mechanism_entries(name, runs), seed, ALPHA)


def last_bits(experiment: Experiment) -> str | None:
    """Return what a reader should know of the float64 noise of a cell; None where noise is not idealised."""
    return _LAST_BITS[experiment.algorithm.releases](experiment.privatizer())
