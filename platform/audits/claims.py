"""What is claimed of a cell, as audits hold it against what they measure."""

from __future__ import annotations

import math

from dprl.privacy import GradientPrivatizer, Privatizer
from dprl.privacy.audits.findings import Claim
from dprl.privacy.submitting import SubmittingUsers


def claim_of(privatizer: Privatizer | GradientPrivatizer | SubmittingUsers) -> Claim:
    """Return what is claimed of a cell; an infinite epsilon where nothing is."""
    claimed = privatizer.request.claimed
    if claimed is None:
        return Claim(math.inf, source=privatizer.request.source)
    return Claim(claimed.epsilon, claimed.delta, privatizer.request.source)
