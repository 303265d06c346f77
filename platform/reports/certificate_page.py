"""Page of one certificate, for the person who signs it: claim, proof, limits, and checks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dprl.platform.reports.number_texts import bound, delta_number
from dprl.platform.reports.templates import template
from dprl.platform.reports.terminal import Table
from dprl.platform.reports.verdicts import VERDICTS, badge, certificate_facts, verdict_id, verdict_line
from dprl.platform.results.summary import standing
from dprl.privacy.certificate import OPEN_CHANNELS
from dprl.privacy.noise_design import SEEDED

_LARGEST = 20.0
"""Largest epsilon whose factor e^epsilon is shown."""
_REMEDIES = (
    ("choosing and stopping trials", "Choose by released metrics, or on a simulator or public data."),
    ("other trials", "Use different users in each trial, or add the epsilons up: dprl compose."),
    ("settings that were tuned", "Tune on a simulator or on public data, then fix the settings in the config."),
    ("raw scores", "Write release_scores: none."),
    ("seed", "In the config: `noise: {entropy: os}`: keys from the operating system, never written down."),
    ("last bits", "For counts and gradients: `noise: {arithmetic: exact}`: whole numbers and exact coins."),
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
    ("returns", "Do not publish them."),
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
"""Remedies for channels that a certificate does not cover, by a part of the channel's text; the first match counts."""
OTHERWISE = "Do not publish it, or ask the authors of the algorithm for a mechanism that covers it."


def certificate_page(
    certificate: Mapping[str, Any],
    versions: Mapping[str, Any],
    title: str,
    rewards: tuple[float, float] = (0.0, 1.0),
    about: str = "",
) -> str:
    """Return the content of a `Certificate.to_dict` as a self-contained HTML page to read, print and sign.

    versions: of the software that made it. title: names the cell. rewards: the range of the environment's own rewards,
    mapped to [0, 1]. about: a line on the environment.
    """
    verdict, epsilon = verdict_id(certificate), standing(certificate).proved
    # Noise that can be removed opens everything else, so it comes first.
    gaps = sorted(certificate["excluded_channels"], key=lambda gap: gap not in OPEN_CHANNELS)
    bounds = (certificate["episodes_per_user"] or {}).get("bounds", [])
    reasons: dict[str, list[str]] = {}
    for noise in certificate["noise"]:
        for line in noise["explained"]:
            reasons.setdefault(line, []).append(noise["release"])
    return template("certificate").render(
        c=certificate,
        title=f"Privacy certificate: {title}",
        about=about,
        badge=badge(verdict),
        heading=VERDICTS[verdict].heading,
        line=verdict_line(certificate),
        epsilon=epsilon,
        times=math.exp(epsilon) if epsilon < _LARGEST else None,
        private=certificate["claimed"]["epsilon"] is not None,
        seeded=any(noise["entropy"] == SEEDED for noise in certificate["noise"] if noise["mechanism"] != "raw"),
        facts=[(name, text) for name, text in certificate_facts(certificate) if not name.endswith("covered")],
        people=Table.of(
            [
                {
                    "Episodes, up to": str(each["episodes"]),
                    "\u03b4": delta_number(each["delta"]),
                    "Proved \u03b5": bound(float(each["epsilon"])),
                    "Proved by": each["by"],
                }
                for each in bounds
            ],
            ("Proved by",),
        ),
        gaps=Table.of([{"Not covered": gap, "Remedy": remedy_of(gap)} for gap in gaps], ("Not covered", "Remedy")),
        reasons=Table.of(
            [{"Release": ", ".join(names), "Reason": line} for line, names in reasons.items()], ("Release", "Reason")
        ),
        rewards=rewards,
        versions=versions,
    )


def remedy_of(gap: str) -> str:
    """Return the remedy for an excluded channel, `OTHERWISE` for one that is unknown here.

    >>> remedy_of("a second episode of the same user")
    'Count people, and use the row for several episodes above.'
    """
    return next((remedy for words, remedy in _REMEDIES if words in gap), OTHERWISE)
