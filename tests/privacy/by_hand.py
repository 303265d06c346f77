"""Designs of noise around queries that no settings make."""

from __future__ import annotations

from typing import Any

from dprl.privacy.base import Guarantee
from dprl.privacy.noise_design import ENTROPY, NoiseDesign
from dprl.privacy.randomness.streams import NoiseConfig


def design_of(query: Any, n_users: int, requested: Guarantee | None, submissions: int = 1) -> NoiseDesign[Any]:
    """Return the design of a query's seeded noise, with the claim that it meets the request."""
    model, noise = "none" if requested is None else requested.trust_model, NoiseConfig()
    releases, threats = query.events(ENTROPY[noise.entropy]), query.threat_model(model, submissions)
    claim: dict[str, Any] = {"requested": requested, "claimed": requested, "noise": noise}
    return NoiseDesign(model, releases, threats, n_users, submissions, query=query, **claim)
