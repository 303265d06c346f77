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


GRADIENT_ADJACENCY = "replace one agent's environment and all its episodes"
RAW_SCORES = (
    "raw scores: a simulator reads them, for figures and for when to stop; epsilon is infinite for whoever sees them"
)
SIMULATED_SCORES = "raw scores, which the simulation reads for its metrics; a deployment must not send them"
DURATIONS = "when a message comes: an agent's episode took that long"
ROUNDS = "how many rounds of fixed length pass before a message comes"
ARRIVALS = "the order in which messages arrive and are applied"
TIMING_DETAILS = "differences of microseconds in computing time"
CARRIED = "what environment or module carry from one agent to the next"
"""Channels of gradients that an algorithm may leave open."""


def of_gradients(
    trust_model: TrustModel, submissions: int, release_scores: str, channels: tuple[str, ...] = ()
) -> Scope:
    """Return the scope of gradients that agents submit, each up to `submissions` times.

    Args:
        trust_model: 'none' or 'ldp'. submissions: T.
        release_scores: 'simulator': raw scores are read; 'private': randomised bits on them are sent; 'none': neither.
        channels: what else an algorithm leaves open, in words.
    """
    unit = (
        f"one agent, who sends at most {submissions} messages"
        if submissions > 1
        else "one agent, who sends one message"
    )
    if trust_model == "none":
        return Scope(
            unit=unit,
            adjacency=GRADIENT_ADJACENCY,
            observer="nobody is kept from anything: the server sees exact gradients",
            covered=(),
            excluded=("everything",),
            attained_by="any two different gradients",
        )
    bits = ("the randomised bit on each score",) if release_scores == "private" else ()
    raw = (RAW_SCORES,) if release_scores == "simulator" else ()
    return Scope(
        unit=unit,
        adjacency=GRADIENT_ADJACENCY,
        observer="the server and everyone else: only the noisy message leaves the agent's side",
        covered=("the content of the agent's messages", *bits, "parameters and everything else computed from messages"),
        excluded=(
            *raw,
            *channels,
            "messages of the same agent in another run or trial",
            "what others see of the agent's own actions",
            "whether an agent takes part, and messages that are lost",
            "settings that were tuned on the agents' scores before the run",
        ),
        attained_by="an agent whose messages are for opposite gradients" + (" and scores" if bits else ""),
    )


NOT_CLIPPED = (
    "values that are not cut from below, and features longer than H - h: nothing bounds what one user changes, and "
    "epsilon is infinite whatever the noise is (D7)"
)
OPEN_REWARDS = "rewards' corrections, which are sent as they are: epsilon is infinite for whoever sees them (D6)"
PUBLIC_REWARDS = "rewards, which are taken for public knowledge"
_AGENTS = "what the agents of an episode see, and are told, of each other: all of them see the state"


def of_statistics(trust_model: TrustModel, rewards: str, clipped: bool) -> Scope:
    """Return the scope of the statistics that users send for a linear model, one message each.

    Args:
        trust_model: 'none' or 'ldp'.
        rewards: what becomes of their corrections: 'public': they are not sent; 'noisy'; 'open': sent as they are.
        clipped: whether the device clips features and values.
    """
    attained_by = "a user whose two trajectories have features at the cosine -1/2 and the value H - h at every stage"
    if not clipped:
        attained_by = "users whose features are ever longer"
    if rewards == "open":
        attained_by = "any two different corrections"
    if trust_model == "none":
        return replace(
            COUNTS["none"],
            observer="nobody is kept from anything: the server and every later user see exact statistics",
            attained_by="any two different features",
        )
    covered = (
        "the user's statistics",
        *(("corrections of the rewards' weights",) if rewards == "noisy" else ()),
        "estimates, policies and everything else computed from messages",
    )
    excluded = (
        _AGENTS,
        *((NOT_CLIPPED,) if not clipped else ()),
        *({"public": (PUBLIC_REWARDS,), "open": (OPEN_REWARDS,)}.get(rewards, ())),
        "realised returns and raw rewards",
        "timing and order of messages",
        "participation itself",
        "a second message of the same user",
    )
    return Scope(
        unit=_UNIT,
        adjacency=ADJACENCY,
        observer="the server and all later users: only the noisy message leaves the user's side",
        covered=covered if clipped and rewards != "open" else (),
        excluded=excluded,
        attained_by=attained_by,
    )


def of_bits(trust_model: TrustModel) -> Scope:
    """Return the scope of one bit that every user sends: 'none', or 'ldp' for randomised ones.

    Rewards are public: what a learner from bits does with them is nobody's secret.
    """
    if trust_model == "none":
        return replace(
            COUNTS["none"],
            observer="nobody is kept from anything: the server and every later user see exact bits",
            attained_by="a user whose two trajectories have different bits",
        )
    return replace(
        COUNTS["ldp"],
        observer="the server and everyone else: only the randomised bit leaves the user's side",
        covered=("the user's bit", "policies and everything else computed from bits"),
        excluded=(
            _AGENTS,
            PUBLIC_REWARDS,
            "realised returns and raw rewards",
            "timing and order of bits",
            "participation itself",
            "a second bit of the same user",
        ),
        attained_by="a user whose two trajectories have different bits",
    )
