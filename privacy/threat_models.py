"""Threat models: the people, the observers and the channels that a guarantee covers, as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dprl.privacy.base import ADJACENCY, LedgerError, TrustModel


@dataclass(frozen=True)
class ThreatModel:
    """The people and channels of a guarantee, in words for the certificate.

    Args:
        unit: the people protected, and how often they take part.
        adjacency: the difference between two neighbouring data sets; a claim for other neighbours is not compared.
        observer: the people against whom it protects.
        covered, excluded: channels that the guarantee covers, and channels that it does not.
        attained_by: the pair of neighbours that attains the proved pure epsilon, if one does.
    """

    unit: str
    adjacency: str
    observer: str
    covered: tuple[str, ...]
    excluded: tuple[str, ...]
    attained_by: str

    def excluding(self, *channels: str, first: bool = False) -> ThreatModel:
        """Return a copy with more excluded channels, after the others or before them."""
        return replace(self, excluded=(*channels, *self.excluded) if first else (*self.excluded, *channels))


GRADIENT_ADJACENCY = "replace one agent's environment and all its episodes"
SAMPLED_ADJACENCY = "add or remove one user with all their episodes"
RAW_SCORES = (
    "raw scores: a simulator reads them, for figures and for early stopping; epsilon is infinite for whoever sees them"
)
SIMULATED_SCORES = "raw scores, which the simulation reads for its metrics; a deployment must not send them"
DURATIONS = "when a message comes: an agent's episode took that long"
ROUNDS = "how many rounds of fixed length pass before a message comes"
TIMING_DETAILS = "differences of microseconds in computing time"
RUNNERS = "processes in which agents play: they hold episodes and clipped gradients without noise, as the server does"
CARRIED = "state that the environment or module carries from one agent to the next"
"""Channels that an algorithm on gradients may leave open."""
NOT_CLIPPED = (
    "values without a lower bound, and features longer than H - h: nothing bounds the change by one user, and epsilon "
    "is infinite for any noise (D7)"
)
OPEN_REWARDS = "rewards' corrections, which are sent without noise: epsilon is infinite for whoever sees them (D6)"
PUBLIC_REWARDS = "rewards, which are assumed to be public"

_MAY_TAKE_PART = "whether an agent takes part, and messages that are lost"
_DRAWS = "who joins a round, for whoever sees users play or the server's draws: without that secret, epsilon is larger"
_ROUND_SIZES = "how many users join a round, by the time that it takes"
_FAILURES = "a drawn user whose environment fails: a run with a vectorised environment stops"
_POPULATION = "the size of the population, which is public"
_USER = "one user, who takes part in one episode"
_RETURNS, _TAKES_PART = "realised returns and raw rewards", "participation itself"
_AGENTS = "what the agents of an episode see, and are told, of each other: all of them see the state"
_EVERYONE = "the server and everyone else: only {} leaves the {}'s side"
_NO_PROTECTION = "no protection: the server and every later user see exact {}"
_OTHERS = "all other users together, and whoever reads the released {} and policies; the server is trusted"
_COUNTS = "a user whose two trajectories share no cell"
_GRAMS = "a user whose two trajectories have features at the cosine -1/2 and values at their bound at every stage"
_GRADIENTS = "an agent whose messages are for opposite gradients"
_AGENT = "one agent, who sends one message"
PLAYERS = "what the players of an episode see, and are told, of each other"
_OWN_ACTIONS, _RECOMMENDED = "what others see of the user's own actions", "actions recommended to the other users"
_EXACT = "the server's memory and checkpoints, which hold exact {}"
_NOISELESS = "the server's memory and checkpoints, which hold gradients without noise"
_OF_AGENTS = (
    "messages of the same agent in another run or trial",
    "what others see of the agent's own actions",
    _MAY_TAKE_PART,
    "settings that were tuned on the agents' scores before the run",
)


def _unprotected(record: str, attained_by: str, unit: str = _USER, adjacency: str = ADJACENCY) -> ThreatModel:
    return ThreatModel(unit, adjacency, _NO_PROTECTION.format(record), (), ("everything",), attained_by)


SHUFFLE: TrustModel = "shuffle"
"""The trust model that permutes reports before they are read."""
NOISY_SIDES: dict[TrustModel, tuple[bool, bool]] = {
    "none": (False, False),
    "jdp": (False, True),
    "ldp": (True, False),
    "shuffle": (True, False),
}
"""Whether there is noise on (the client's side, the server's side), by trust model."""
_Channels = tuple[str, ...]


def _user(observer: str, covered: _Channels, excluded: _Channels, attained_by: str) -> ThreatModel:
    return ThreatModel(_USER, ADJACENCY, observer, covered, excluded, attained_by)


def _agent(observer: str, covered: _Channels, excluded: _Channels) -> ThreatModel:
    return ThreatModel(_AGENT, GRADIENT_ADJACENCY, observer, covered, (*excluded, *_OF_AGENTS), _GRADIENTS)


def _left(one: str) -> _Channels:
    """Return the channels left open by users who each send one object, called `one`."""
    return _RETURNS, f"timing and order of {one}s", _TAKES_PART, f"a second {one} of the same user"


def _at_server(name: str) -> _Channels:
    """Return the channels that a trusted server leaves open; name: of its sums."""
    return "the user's own actions", *_left("episode"), _EXACT.format(name)


THREAT_MODELS: dict[tuple[str, TrustModel], ThreatModel] = {
    ("counts", "none"): _unprotected("counts", _COUNTS),
    ("counts", "jdp"): _user(
        _OTHERS.format("counts"),
        ("released counts of all episodes", "policies of all episodes", _RECOMMENDED),
        _at_server("counts"),
        _COUNTS,
    ),
    ("counts", "ldp"): _user(
        _EVERYONE.format("the noisy report", "user"),
        ("the user's report", "counts, policies and everything else computed from reports"),
        (_OWN_ACTIONS, *_left("report")),
        _COUNTS,
    ),
    ("counts", "shuffle"): _user(
        (
            "the server and everyone else who sent nothing in a block: they see its reports in a random order, which "
            "the trusted shuffler does not reveal"
        ),
        (
            "the shuffled reports of every block, and their sums",
            "counts, policies and everything else computed from them",
        ),
        (
            (
                "reports before they are shuffled, and sums of less than a block, which checkpoints hold: these have "
                "the local guarantee only"
            ),
            "users of the same block who reveal their own reports, or send false ones: they hide nobody",
            _OWN_ACTIONS,
            *_left("report"),
        ),
        _COUNTS,
    ),
    ("gradients", "none"): _unprotected("gradients", "any two different gradients", _AGENT, GRADIENT_ADJACENCY),
    ("gradients", "ldp"): _agent(
        _EVERYONE.format("the noisy message", "agent"),
        ("the content of the agent's messages", "parameters and everything else computed from messages"),
        (),
    ),
    ("gradients", "jdp"): _agent(
        "all other agents together, and whoever reads the parameters; the server is trusted",
        ("released sums of gradients", "parameters and everything else computed from released sums"),
        (),
    ).excluding(_NOISELESS),
    ("statistics", "none"): _unprotected("statistics", "any two different features"),
    ("statistics", "ldp"): _user(
        "the server and all later users: only the noisy message leaves the user's side",
        ("the user's statistics", "estimates, policies and everything else computed from messages"),
        _left("message"),
        _GRAMS,
    ),
    ("statistics", "jdp"): _user(
        _OTHERS.format("statistics"),
        ("released sums of statistics of all episodes", "estimates and policies of all episodes", _RECOMMENDED),
        _at_server("statistics"),
        _GRAMS,
    ),
}
"""Threat models by query and trust model, for one message per user. The queries add their options."""


def of_model(query: str, model: TrustModel) -> ThreatModel:
    """Return the threat model of a query without options. Raises LedgerError if it has no such trust model."""
    if (query, model) not in THREAT_MODELS:
        raise LedgerError(f"{query} have no trust model {model}; a shuffler permutes counts only")
    return THREAT_MODELS[query, model]


def of_sampled_gradients(found: ThreatModel) -> ThreatModel:
    """Return the threat model for users who join rounds at random and secretly, from that of gradients in one pass."""
    return replace(
        found,
        unit="one user of a fixed population, who joins each round at random and secretly",
        adjacency=SAMPLED_ADJACENCY,
        covered=(*found.covered, "whether a user is in the population, and who joined a round"),
        excluded=(
            *(name for name in found.excluded if name != _MAY_TAKE_PART),
            *(_DRAWS, _ROUND_SIZES, _FAILURES, _POPULATION),
        ),
        attained_by="no pair of users that is known",
    )


def of_statistics(model: TrustModel, rewards: str, clipped: bool) -> ThreatModel:
    """Return the threat model of the statistics that users send for a linear model, one message each.

    rewards: treatment of corrections to them: 'public', not sent; 'noisy'; 'open', sent without noise.
    clipped: whether the device clips features and values.
    """
    found = of_model("statistics", model)
    if model == "none":
        return found
    if rewards == "noisy":
        statistics, *computed = found.covered
        corrections = "sums of corrections" if model == "jdp" else "corrections"
        found = replace(found, covered=(statistics, f"{corrections} of the rewards' weights", *computed))
    if not clipped or rewards == "open":
        longest = "any two different corrections" if rewards == "open" else "users with ever longer features"
        found = replace(found, covered=(), attained_by=longest)
    clips = () if clipped else (NOT_CLIPPED,)
    left_open = {"public": (PUBLIC_REWARDS,), "open": (OPEN_REWARDS,)}.get(rewards, ())
    return found.excluding(_AGENTS, *clips, *left_open, first=True)


def of_trials(raw_metrics: Sequence[str]) -> tuple[str, ...]:
    """Return the channels that a search over trials leaves open, besides those of each trial.

    raw_metrics: reported metrics that a trial's guarantee does not cover.
    """
    raw = f"choosing and stopping trials by raw metrics ({', '.join(raw_metrics)}): epsilon is infinite for that choice"
    others = "other trials of the same search: the epsilons of all trials that a user is in add up"
    return (raw, others) if raw_metrics else (others,)
