"""What a trust model decides on gradients, and what a ledger charges for it."""

from __future__ import annotations

from dataclasses import dataclass

from dprl.privacy.base import Scope
from dprl.privacy.gradients.senders import Randomisers
from dprl.privacy.ledgers.ledger import Release
from dprl.privacy.mechanisms.base import Sensitivity
from dprl.privacy.mechanisms.vectors import RawVector


@dataclass(frozen=True)
class GradientParts:
    """What a trust model decides.

    Args:
        randomisers: what an agent sends. scope: whom and what the guarantee speaks of.
        n_agents: how many agents there are. submissions: T, how often each of them submits at most.
    """

    randomisers: Randomisers
    scope: Scope
    n_agents: int
    submissions: int


def releases(randomisers: Randomisers, entropy: str) -> list[Release]:
    """Return the releases of one submission, described by the objects that make the noise."""
    mechanism, response = randomisers.mechanism, randomisers.response
    if isinstance(mechanism, RawVector):
        return [Release("gradient", None, None, None, True, 1, mechanism.dimension, entropy)]
    found = [Release.of_message("gradient", mechanism, True, mechanism.message_length, entropy)]
    if response is not None:
        bit = Sensitivity.of_cells(1)
        found.append(Release("score bit", response, bit, bit, True, 1, 1, entropy))
    return found
