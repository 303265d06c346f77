"""Page of one certificate, for the person who signs it: claim, proof, limits, and checks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from dprl.platform.reports.number_texts import bound, delta_number
from dprl.platform.reports.templates import badge, template
from dprl.platform.reports.terminal import Table
from dprl.platform.reports.verdicts import audit_text, badge_of, certificate_facts, verdict_line
from dprl.platform.results.summary import standing
from dprl.privacy.certificate import OPEN_CHANNELS
from dprl.privacy.noise_design import SEEDED

_LARGEST = 20.0
"""Largest epsilon whose factor e^epsilon is shown."""
_MODELS = {"jdp": "joint differential privacy (JDP)", "ldp": "local differential privacy (LDP)"}
_WORDS = {
    "released counts": "released noisy counts",
    "float64-idealised": "float64 (the proof is for real numbers)",
    "joint sensitivity": "all episodes at once",
    OPEN_CHANNELS[0]: "whoever has, or computes, the random seed: the noise can then be removed (the generator is not "
    "cryptographic), and two runs that share a seed can share their noise",
}
"""Replacements for terms of certificates."""
_VERDICTS = {
    "holds": "The claim {} holds.",
    "simulated": "The claim {} holds for the noise of this run, but a simulation protects nobody.",
    "delta": "The pure claim {} holds only for \u03b4 > 0: up to a probability of one in a million.",
    "fails": "The claim fails: the noise that ran proves only a larger epsilon. Do not sign it.",
    "nothing": "There is no privacy: no finite epsilon is proved. Do not sign it.",
    "refuted": "An audit refutes this certificate. Do not sign it.",
    "reference": "This run protects nobody: it was run without privacy, for comparison.",
}

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
    verdict, claimed, epsilon = badge_of(certificate), certificate["claimed"], standing(certificate).proved
    private = claimed["epsilon"] is not None
    seeded = any(noise["entropy"] == SEEDED for noise in certificate["noise"] if noise["mechanism"] != "raw")
    at = f" at \u03b4 = {delta_number(claimed['delta'])}" if claimed["delta"] else ""
    claim = f"\u03b5 = {_number(claimed['epsilon'])}{at}" if private else ""
    lead = [f"{verdict_line(certificate)}."] if verdict != "holds" else []
    if epsilon < _LARGEST:
        but = f", except with probability {delta_number(claimed['delta'])}" if claimed["delta"] else ""
        factor = f"{_up(math.exp(epsilon))} times as likely (e^{_up(epsilon)}){but}"
        lead.append(f"If one user had other data, no covered outcome would be more than {factor}.")
    if seeded:
        lead.append("The noise of this run can be drawn again from its seed, so do not use it for real people.")
    asked = f"the config asked for {claim}; the noise was scaled to meet it"
    deltas = certificate["proved"]["epsilon_at_delta"].items()
    proved = f"\u03b5 = {_up(epsilon)}{at or _PURE}"
    facts = [
        ("Proved", Markup(" ").join([proved, badge(verdict), *["in simulation"] * (seeded and verdict == "holds")])),
        ("Claimed", claim),
        ("Claimed by", asked if claimed["calibration"] == "certified" else claimed["source"]),
        ("Trust model", _MODELS.get(certificate["trust_model"], certificate["trust_model"])),
        ("Who is protected", certificate["unit"]),
        ("Neighbours", certificate["adjacency"]),
        ("Against", _plain(certificate["observer"])),
        ("By \u03b4", ", ".join(f"\u03b5 \u2264 {_up(e)} at \u03b4 = {delta_number(float(d))}" for d, e in deltas)),
        ("Audited", audit_text(certificate["audit"]) if certificate["audit"] else "no"),
    ]
    attempts, again = certificate["attempts"], certificate["users_asked_again"]
    told = f"Started {attempts} times; {again:,} users were asked again, and the proof counts all attempts."
    # Noise that can be removed opens everything else, so it comes first.
    gaps = sorted(certificate["excluded_channels"], key=lambda gap: gap not in OPEN_CHANNELS)
    made = ", ".join(f"{name} {value}" for name, value in versions.items() if isinstance(value, str | int | float))
    users = f"{certificate['users']:,} users" if certificate.get("users") else ""
    return template("certificate").render(
        title=f"Privacy certificate: {title}",
        eyebrow=f"Privacy certificate \u00b7 {title}",
        run=", ".join(filter(None, (about, users))),
        answer=_VERDICTS["simulated" if verdict == "holds" and seeded else verdict].format(claim),
        lead=" ".join(lead),
        facts=facts if private else [],
        people=_people(certificate),
        unit=certificate["unit"],
        covered="; ".join(map(_plain, certificate["covered_channels"])) or "nothing",
        gaps=Table(_GAPS, [[_plain(gap), remedy_of(gap)] for gap in gaps], _GAPS),
        # A simulation repeats its noise.
        started=(told if attempts > 1 else _STARTED) if private and not seeded else "",
        reasons=_reasons(certificate),
        details=_details(certificate, rewards),
        made=f"schema {certificate['schema']}{f', {made}' if made else ''}",
    )


_PURE = ", pure (\u03b4 = 0)"
_GAPS = ("Not covered", "Remedy")
_STARTED = "Started once; a restart would cost epsilon again."


def _plain(text: str) -> str:
    """Return a text of a certificate in words for a reader who does not know the code."""
    for code, words in _WORDS.items():
        text = text.replace(code, words)
    return text


def _people(certificate: Mapping[str, Any]) -> Table | None:
    """Return epsilon for people who take part more than once, None without noise."""
    if not certificate["episodes_per_user"]:
        return None
    rows = [
        [str(b["episodes"]), delta_number(b["delta"]) if b["delta"] else "0", _up(b["epsilon"]), _plain(b["by"])]
        for b in certificate["episodes_per_user"]["bounds"]
    ]
    return Table(("Episodes, up to", "\u03b4", "Proved \u03b5", "Proved by"), rows, ("Proved by",))


def remedy_of(gap: str) -> str:
    """Return the remedy for an excluded channel, `OTHERWISE` for one that is unknown here.

    >>> remedy_of("a second episode of the same user")
    'Count people, and use the row for several episodes above.'
    """
    return next((remedy for words, remedy in _REMEDIES if words in gap), OTHERWISE)


def _reasons(certificate: Mapping[str, Any]) -> Table:
    """Return the lines that explain the scale of each noise, those that several releases share once."""
    lines: dict[tuple[str, ...], list[str]] = {}
    for noise in certificate["noise"]:
        if noise["explained"]:
            lines.setdefault(tuple(noise["explained"]), []).append(noise["release"])
    rows = [["" if i else ", ".join(names), line] for told, names in lines.items() for i, line in enumerate(told)]
    return Table(("Release", "Reason"), rows, ("Release", "Reason"))


def _details(certificate: Mapping[str, Any], rewards: tuple[float, float]) -> Table:
    """Return the noise, the request and the proof; the facts above state epsilon at every delta."""
    facts = [(name, text) for name, text in certificate_facts(certificate) if name in ("noise", "requested", "proved")]
    rows = [
        [name.capitalize(), _plain(text).replace("below", "above")]
        for name, text in facts
        if not (name == "proved" and text.startswith(("epsilon ", "delta 0 at")))
    ]
    low, high = rewards
    if rewards != (0.0, 1.0):
        told = f"noise of 1 on a sum of rewards is {high - low:g} of the environment's own"
        rows.append(["Rewards", f"mapped from [{low:g}, {high:g}] to [0, 1]; {told}"])
    return Table(("Subject", "Value"), rows, ("Subject", "Value"))


def _number(value: Any) -> str:  # noqa: ANN401 - a number of a certificate, infinity as 'inf'
    found = float(value)
    if found == float("inf"):
        return "\u221e"
    return f"{found:,.0f}" if found == int(found) and abs(found) < 1e9 else f"{found:.4g}"


def _up(value: Any) -> str:  # noqa: ANN401 - as for `_number`
    """Return a bound, rounded up."""
    found = float(value)
    return f"{float(bound(found)):,.12g}" if math.isfinite(found) and found > 0.0 else _number(found)
