"""One line of an audited page: a claim, what its noise proves, and how it is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from dprl.privacy.audits.findings import Claim, Finding, Measurement, NoiseProof
from dprl.privacy.audits.two_worlds import Attack

Measure = Callable[[Attack], Measurement]


@dataclass(frozen=True)
class Entry:
    """A claim to be audited.

    Args:
        name: short, unique on its page.
        subject: the mechanism and its noise, in a line.
        claim: what is said.
        prove: computes what the noise proves.
        measure: runs the sampler; None where sampling cannot show anything in reasonable time.
        runs: per world.
        note: what a reader should also know.
    """

    name: str
    subject: str
    claim: Claim
    prove: Callable[[], NoiseProof]
    measure: Measure | None = None
    runs: int = 100_000
    note: str = ""

    def audit(self, attack: Attack) -> Finding:
        """Return what is found; attack.runs gives way to the entry's own."""
        measured = None if self.measure is None else self.measure(replace(attack, runs=self.runs))
        return Finding(self.name, self.subject, self.claim, self.prove(), measured, self.note)


def audit_page(entries: Iterable[Entry], seed: int = 0, alpha: float = 0.05) -> list[Finding]:
    """Return all findings; all measured bounds hold together with probability 1 - alpha."""
    page = list(entries)
    sampled = sum(entry.measure is not None for entry in page)
    attack = Attack(seed=seed, alpha=alpha / max(1, sampled))
    return [entry.audit(attack) for entry in page]
