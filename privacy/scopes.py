"""Whom the counts of an episode protect, against whom, and through what: one scope for each trust model."""

from __future__ import annotations

from dataclasses import replace

from dprl.privacy.base import ADJACENCY, Scope, TrustModel

_UNIT = "one user, who takes part in one episode"
_ATTAINED_BY = "a user whose two trajectories share no cell"

COUNTS: dict[TrustModel, Scope] = {
    "none": Scope(
        unit=_UNIT,
        adjacency=ADJACENCY,
        observer="nobody is kept from anything: the server and every later user see exact counts",
        covered=(),
        excluded=("everything",),
        attained_by=_ATTAINED_BY,
    ),
    "jdp": Scope(
        unit=_UNIT,
        adjacency=ADJACENCY,
        observer="all other users together, and whoever reads the released counts and policies; the server is trusted",
        covered=(
            "released counts of all episodes",
            "policies of all episodes",
            "actions recommended to the other users",
        ),
        excluded=(
            "the user's own actions",
            "realised returns and raw rewards",
            "timing and order of episodes",
            "participation itself",
            "a second episode of the same user",
            "the server's memory and checkpoints, which hold exact counts",
        ),
        attained_by=_ATTAINED_BY,
    ),
    "ldp": Scope(
        unit=_UNIT,
        adjacency=ADJACENCY,
        observer="the server and everyone else: only the noisy report leaves the user's side",
        covered=("the user's report", "counts, policies and everything else computed from reports"),
        excluded=(
            "what others see of the user's own actions",
            "realised returns and raw rewards",
            "timing and order of reports",
            "participation itself",
            "a second report of the same user",
        ),
        attained_by=_ATTAINED_BY,
    ),
}
"""For ledgers of privatizers, where every user submits the counts of one episode."""


def of_counts(trust_model: TrustModel, players: int) -> Scope:
    """Return the scope of counts of episodes that so many players make together."""
    scope = COUNTS[trust_model]
    if players == 1:
        return scope
    return replace(
        scope,
        unit=f"one user, the {players} players of an episode together, who take part in one episode",
        excluded=(*scope.excluded, "what the players of an episode see, and are told, of each other"),
    )
