"""Remedies for the channels that a certificate does not cover, one for each."""

from __future__ import annotations

_REMEDIES = (
    ("choosing and stopping trials", "Choose by released metrics, or on a simulator or public data."),
    ("other trials", "Use different users in each trial, or add the epsilons up: dprl compose."),
    ("settings that were tuned", "Tune on a simulator or on public data, then fix the settings in the config."),
    ("raw scores", "Write release_scores: none, or private for one randomized bit per message."),
    ("seed", "In the config: `noise: {entropy: os}`: keys from the operating system, never written down."),
    ("last bits", "In the config: `noise: {arithmetic: exact}`: whole numbers and exact coins."),
    ("before they are shuffled", "Run the shuffler apart from the server, and delete reports after a block."),
    ("hide nobody", "Ask for an epsilon that holds with fewer honest users: a larger block."),
    ("in another run", "Keep one list of people for all runs, and add the epsilons up: dprl compose."),
    ("of the same user", "Count people, and use the row for several episodes above."),
    ("failed", "Repair or pad the environment on the device, so that no user's data stop a run."),
    ("fails", "Repair or pad the environment on the device, so that no user's data stop a run."),
    ("memory and checkpoints", "Restrict access to the server, delete checkpoints after the run, or use model: ldp."),
    ("processes in which", "Run agents on the users' own devices, or trust these machines as the server."),
    ("order", "Send in rounds of fixed length, ordered by a public number of the user."),
    ("timing", "Send in rounds of fixed length, ordered by a public number of the user."),
    ("when a message comes", "Send in rounds of fixed length, and pad short episodes on the device: padded: true."),
    ("how many rounds of fixed", "Make the rounds as long as the longest episode: padded: true."),
    ("microseconds", "Send at fixed times, not when computing ends."),
    ("how many users join a round", "Pad every round to the same time and size of message."),
    ("who joins a round", "Keep the server's draws secret, and delete them after each round."),
    ("size of the population", "Publish it, or protect it by another mechanism."),
    ("part", "Use a list of participants that is public or protected otherwise, and always send."),
    ("returns", "Do not publish them, or send one randomized bit per user and add its epsilon."),
    ("own actions", "Hide actions from bystanders; the guarantee is about what others receive."),
    ("agents of an episode", "Let only agents that may know each other play together."),
    ("players of an episode", "Let only players who may know each other play together."),
    ("between agents", "Reset environments and modules between agents."),
    ("from one agent to the next", "Reset environments and modules between agents."),
    ("corrections, which are sent", "Write rewards: noisy, so that corrections get noise of their own."),
    ("rewards, which are assumed", "Check that rewards are public, or write rewards: noisy."),
    ("values without a lower bound", "Write clipping: device, so that every message is bounded."),
    ("everything", "Write privacy: {model: jdp} or ldp: this run protects nobody."),
)
"""Pairs (part of a channel's text, remedy); the first match counts."""
OTHERWISE = "Do not publish it, or ask the authors of the algorithm for a mechanism that covers it."


def remedy_of(gap: str) -> str:
    """Return the remedy for an excluded channel, `OTHERWISE` for one that is unknown here.

    >>> remedy_of("a second episode of the same user")
    'Count people, and use the row for several episodes above.'
    """
    return next((remedy for words, remedy in _REMEDIES if words in gap), OTHERWISE)
