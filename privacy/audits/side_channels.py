"""The deterministic-channel test: with the same noise seeds, nothing else that leaves a user's side may change.

Whatever is not a registered noisy release must be the same bytes for any two users: gradients' scores, weights passed
on, durations, order, number and size of messages. One difference is a distinguisher that is never wrong.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dprl.privacy.audits.findings import Claim, Measurement, ProbeProof
from dprl.privacy.audits.probes_privatizers import bystander, canary
from dprl.privacy.base import Float64Array
from dprl.privacy.bits import BitPrivatizer, receive_bit, send_bit
from dprl.privacy.counts.privatizers import Privatizer
from dprl.privacy.gradients.privatizers import GradientPrivatizer
from dprl.privacy.gradients.senders import GradientSender
from dprl.privacy.ledgers.ledger import Account
from dprl.privacy.linear_statistics.channels import add_statistics, send_statistics
from dprl.privacy.linear_statistics.privatizers import StatisticsPrivatizer
from dprl.privacy.mechanisms.base import INTEGER
from dprl.privacy.submitting import SubmittingUsers

METHOD = "same seeds"
ORDER = "order of messages"
NOISY_CHANNELS = ("report", "released counts")
_DIGITS = 9
_FAR, _MIDDLE = 1e3, 100.0
"""The canary's gradient, longer than any clip, and the score of all others."""
_MESSAGE, _ESTIMATES, _SCORE_BITS = NOISY_MESSAGES = ("message", "estimates", "score bits")


@dataclass(frozen=True)
class Message:
    """Something that left the user's side: on which channel, and its bytes."""

    channel: str
    content: bytes

    @staticmethod
    def of(channel: str, numbers: npt.ArrayLike) -> Message:
        """Return the message that consists of an array of numbers."""
        array = np.ascontiguousarray(numbers)
        return Message(channel, f"{array.dtype}{array.shape}".encode() + array.tobytes())


Recorder = Callable[[int], Sequence[Message]]
"""Plays world 0 or 1 with the same noise seeds and returns all that left the user's side, in order."""


def differing_channels(record: Recorder, noisy: Collection[str] = ()) -> tuple[str, ...]:
    """Return the channels that tell world 0 from world 1 with certainty, sorted.

    noisy: channels of registered noisy releases; their bytes may differ, their number, order and size may not.
    """
    first, second = record(0), record(1)
    if [message.channel for message in first] != [message.channel for message in second]:
        return (ORDER,)
    found = set()
    for one, other in zip(first, second, strict=True):
        same = len(one.content) == len(other.content) if one.channel in noisy else one.content == other.content
        if not same:
            found.add(one.channel)
    return tuple(sorted(found))


def measure_channels(
    record: Recorder, claim: Claim, proved: ProbeProof, description: str, noisy: Collection[str] = ()
) -> Measurement:
    """Return epsilon = infinity and delta = 1 if any channel tells the worlds apart, else 0 and 0.

    A difference is certain; that there is none holds for these two worlds and seeds only.
    """
    leaks = differing_channels(record, noisy)
    told = f"{description}: {', '.join(leaks)}: not the same" if leaks else f"{description}: only noisy releases differ"
    bounds = (math.inf, 1.0) if leaks else (0.0, 0.0)
    return Measurement(METHOD, told, claim, proved, *bounds, confidence=1.0, runs=1)


def recorded_run(privatizer: Privatizer, world: int, algorithm: str) -> list[Message]:
    """Return all that leaves the users' side, and all that is shown of it, in a whole run of `privatizer`.

    With a trusted server that begins at the released counts, without one at the report. What noise on whole numbers
    does not hide is a message of its own: it may not differ. The privatizer is used up.
    """
    families, messages = privatizer.families, []
    for user in range(1, privatizer.n_users + 1):
        record = canary(families, world, fractions=True) if user == 1 else bystander(families)
        report = privatizer.encode(record, user)
        if privatizer.trust_model != "jdp":
            messages.append(Message.of("report", report.values))
        counts = privatizer.absorb(report)
        messages.append(Message.of("released counts", counts.values))
        fractions = fractional_parts(privatizer)
        if fractions is not None:
            messages.append(Message.of("fractions", fractions))
        shown = f"{record!r} {report!r} {counts!r} {privatizer.channel!r} {privatizer.ledger.users_charged}"
        messages.append(Message("texts", shown.encode()))
    return [*messages, _told_at_the_end(privatizer, algorithm)]


def fractional_parts(privatizer: Privatizer) -> Float64Array | None:
    """Return what follows the point of the noisy numbers that left last, float64[n]; None if noise hides that, too.

    Noise on whole numbers leaves it as it is: two users may not differ in it.
    """
    report, counter = privatizer.noise.report, privatizer.noise.counter
    noise, channel = report or counter.node, privatizer.channel
    if noise is None or noise.arithmetic != INTEGER:
        return None
    numbers = channel.sender.message if report else channel.receiver.noisy
    # Sums of fractions are rounded, too.
    return np.asarray(np.round(np.mod(numbers, 1.0), _DIGITS), dtype=np.float64)


def recorded_submissions(privatizer: GradientPrivatizer, world: int, algorithm: str) -> list[Message]:
    """Return all that leaves the agents' side, and all that is shown of it, when every agent submits once.

    The worlds differ in the first agent's gradient and score, as far as they can. The privatizer is used up.
    """
    agents = privatizer.n_agents
    gradients = np.full((agents, privatizer.dimension), 0.25)
    gradients[0] = 0.0
    gradients[0, 0] = _FAR if world else -_FAR
    scores = np.full(agents, _MIDDLE)
    scores[0] = 2.0 * _MIDDLE if world else 0.0
    lease = privatizer.lease(agents)
    outbox = GradientSender(privatizer.sender_spec)
    sent = outbox.send(lease, gradients, scores)
    found = [Message.of(_MESSAGE, values) for values in sent.values]
    found.append(Message.of(_ESTIMATES, privatizer.estimates(sent)))
    bits = privatizer.score_bits(sent)
    found += [] if bits is None else [Message.of(_SCORE_BITS, bits)]
    shown = f"{lease!r} {outbox!r} {sent!r} {privatizer!r} {privatizer.channel!r} {privatizer.ledger.users_charged}"
    return [
        *found,
        _shown(shown),
        Message.of("submissions", sent.submissions),
        _told_at_the_end(privatizer, algorithm),
    ]


def noisy_channels(ledger: Account) -> tuple[str, ...]:
    """Return the channels of recorded statistics and bits on which messages may differ: what has noise."""
    return tuple(release.channel for release in ledger.releases if release.mechanism is not None)


def recorded_statistics(privatizer: StatisticsPrivatizer, world: int, algorithm: str) -> list[Message]:
    """Return all that leaves the users' side, and all that is shown of it, in a whole run of `privatizer`.

    A message's parts are on the channels that the ledger names. The worlds differ in the first user's features, values
    and corrections, as far as they can. The privatizer is used up.
    """
    layout, channel, parts = privatizer.layout, privatizer.channel, privatizer.parts
    features = np.empty((layout.n_messages, layout.horizon, layout.dimension))
    targets = np.empty(features.shape[:2])
    corrections = np.empty((layout.n_agents, layout.horizon, layout.reward_dimension))
    sums = np.zeros((*features.shape, layout.dimension)), np.zeros(features.shape)
    names = [release.channel for release in privatizer.planned_ledger().releases]
    wide, found = parts.mechanism.release.n_numbers, []
    privatizer.charge(1, privatizer.n_users)
    for user in range(1, privatizer.n_users + 1):
        far = 0.25 if user > 1 else _FAR if world else -_FAR
        features[...], targets[...], corrections[...] = 0.25, abs(far - _FAR), far
        features[..., 0] = far
        read = np.zeros(corrections.shape)
        send_statistics(channel, features, targets, corrections, user)
        found += [
            Message.of(name, part)
            for name, part in zip(names, (channel.message[:wide], channel.message[wide:]), strict=False)
        ]
        found.append(Message.of("fractions", _off_grid(privatizer)))
        add_statistics(channel, *sums, read)
        found += [Message.of(names[0], array) for array in sums]
        found += [Message.of(name, read) for name in names[1:]]
        found.append(_shown(f"{privatizer!r} {channel!r} {channel.noise!r} {channel.rewards!r}"))
    return [*found, _told_at_the_end(privatizer, algorithm)]


def _off_grid(privatizer: StatisticsPrivatizer) -> Float64Array:
    """Return how far the numbers of the message that left last lie from their grids, in their units; 0 for none."""
    parts, message, place = privatizer.parts, privatizer.channel.message, 0
    release, off = parts.mechanism.release, np.zeros(privatizer.channel.message.shape[0])
    grids = [parts.mechanism.grid(h + 1) for h in range(parts.layout.horizon) if release.bounds[h] > 0.0]
    for grid in grids * release.n_messages:
        stop = place + release.message_length
        off[place:stop] = np.mod(message[place:stop] / grid, 1.0) if grid else 0.0
        place = stop
    noise = parts.reward_noise
    if noise is not None and noise.grid:
        off[place:] = np.mod(message[place:] / noise.grid, 1.0)
    return off


def recorded_bits(privatizer: BitPrivatizer, world: int, algorithm: str) -> list[Message]:
    """Return all that leaves the users' side, and all that is shown of it, in a whole run of `privatizer`.

    The worlds differ in the first user's bit. The privatizer is used up.
    """
    channel, found = privatizer.channel, []
    (release,) = privatizer.planned_ledger().releases
    privatizer.charge(1, privatizer.n_users)
    for user in range(1, privatizer.n_users + 1):
        send_bit(channel, world if user == 1 else 1, user)
        found.append(Message.of(release.channel, channel.message))
        found.append(Message.of(release.channel, [receive_bit(channel)]))
        found.append(_shown(f"{privatizer!r} {channel!r}"))
    return [*found, _told_at_the_end(privatizer, algorithm)]


def _shown(text: str) -> Message:
    # Two privatizers have two places in memory, which say nothing.
    return Message("texts", re.sub("0x[0-9a-f]+", "", text).encode())


def _told_at_the_end(privatizer: Privatizer | GradientPrivatizer | SubmittingUsers, algorithm: str) -> Message:
    certificate = privatizer.certificate(algorithm).to_dict()
    return Message("certificate", json.dumps(certificate, sort_keys=True).encode())
