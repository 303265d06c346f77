"""Recorder of runs, for the deterministic-channel test: with the same noise seeds, nothing else may change.

Everything that leaves a user's side, except registered noisy releases, must have the same bytes for any two users:
scores of gradients, weights passed on, durations, order, number and size of messages. Any difference distinguishes two
users with certainty.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from dprl.privacy import (
    BitPrivatizer,
    BitQuery,
    CountPrivatizer,
    CountQuery,
    GradientClient,
    GradientPrivatizer,
    GradientQuery,
    Privatizer,
    StatisticsPrivatizer,
    StatisticsQuery,
    receive,
    receive_bit,
    send_bit,
    submit,
)
from dprl.privacy.audits.findings import Claim, Measurement, ProbeProof
from dprl.privacy.audits.privatizer_probes import canary, filler_user
from dprl.privacy.base import Float64Array
from dprl.privacy.mechanisms.base import INTEGER
from dprl.privacy.queries.linear_statistics_kernels import add_statistics, aggregate_statistics, send_statistics
from dprl.privacy.queries.sampled_gradients import SampledGradientQuery, draw_users, release_round
from dprl.privacy.schedule import release_number

ORDER = "order of messages"
_METHOD = "same seeds"
_DIGITS = 9
_FAR, _MIDDLE = 1e3, 100.0
"""The canary's gradient, longer than any clip, and the score of all others."""
_REPORT, _RELEASED = _COUNTS = ("report", "released counts")
_MESSAGE, _ESTIMATES, _SCORE_BITS = _GRADIENTS = ("message", "estimates", "score bits")
AnyPrivatizer = Privatizer[Any]


@dataclass(frozen=True)
class Message:
    """Message that left the user's side: its channel, and its bytes."""

    channel: str
    content: bytes

    @staticmethod
    def of(channel: str, numbers: npt.ArrayLike) -> Message:
        """Return the message that consists of an array of numbers."""
        array = np.ascontiguousarray(numbers)
        return Message(channel, f"{array.dtype}{array.shape}".encode() + array.tobytes())


Recorder = Callable[[int], Sequence[Message]]
"""Function of the world, 0 or 1, that returns all messages leaving the users' side in order, with fixed noise seeds."""


def differing_channels(record: Recorder, noisy: Collection[str] = ()) -> tuple[str, ...]:
    """Return the channels that distinguish world 0 from world 1 with certainty, sorted.

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
    """Return epsilon = infinity and delta = 1 if any channel differs between the worlds, else 0 and 0.

    A difference is certain, but its absence holds for these two worlds and seeds only.
    """
    leaks = differing_channels(record, noisy)
    told = f"{description}: {', '.join(leaks)}: not the same" if leaks else f"{description}: only noisy releases differ"
    bounds = (math.inf, 1.0) if leaks else (0.0, 0.0)
    return Measurement(_METHOD, told, claim, proved, *bounds, confidence=1.0, runs=1)


def recorded_run(privatizer: AnyPrivatizer, world: int, algorithm: str) -> list[Message]:
    """Return everything that leaves the users' side, and all texts about it, in a whole run.

    With a trusted server, these are the released counts and all that follows; otherwise they begin with the messages.
    The worlds differ in the first user's record as much as possible. The privatizer is used up.
    """
    found = list(_RECORDERS[privatizer.query.name](privatizer, world))
    certificate = privatizer.certificate(algorithm).to_dict()
    return [*found, Message("certificate", json.dumps(certificate, sort_keys=True).encode())]


def noisy_channels(privatizer: AnyPrivatizer) -> tuple[str, ...]:
    """Return the recorded channels with noise, on which messages may differ."""
    ledger = privatizer.planned_ledger()
    if privatizer.query.name == CountQuery.name:
        return _COUNTS if all(release.mechanism is not None for release in ledger.spec.releases) else ()
    if privatizer.query.name == GradientQuery.name:
        return () if ledger.has_raw_release else _GRADIENTS
    return tuple(release.channel for release in ledger.spec.releases if release.mechanism is not None)


def _of_counts(privatizer: CountPrivatizer, world: int) -> Iterator[Message]:
    """Yield the messages of counts; parts that noise on whole numbers does not hide are a separate message."""
    families = privatizer.query.families
    for user in range(1, privatizer.n_users + 1):
        record = canary(families, world, fractions=True) if user == 1 else filler_user(families)
        report = privatizer.send(record, user)
        if not privatizer.server_noise:
            yield Message.of(_REPORT, report.values)
        privatizer.receive(report)
        counts = privatizer.release()
        yield Message.of(_RELEASED, counts.values)
        fractions = fractional_parts(privatizer)
        if fractions is not None:
            yield Message.of("fractions", fractions)
        yield _shown(record, report, privatizer.channel, privatizer.ledger.users_charged)


def fractional_parts(privatizer: CountPrivatizer) -> Float64Array | None:
    """Return the fractional parts of the last noisy numbers sent, float64[n]; None if noise hides them, too.

    Noise on whole numbers leaves them unchanged, so they must not differ between two users.
    """
    report, noise, channel = privatizer.query.noise.law, privatizer.query.noise.on_either_side, privatizer.channel
    if noise is None or noise.arithmetic != INTEGER:
        return None
    numbers = channel.message if report else channel.server.noisy
    # Sums of fractions have rounding errors.
    return np.asarray(np.round(np.mod(numbers, 1.0), _DIGITS), dtype=np.float64)


def _of_gradients(privatizer: GradientPrivatizer, world: int) -> Iterator[Message]:
    """Yield the releases of agents who submit once each; the worlds differ in the first one's gradient and score."""
    agents = privatizer.n_users
    gradients = np.full((agents, privatizer.query.dimension), 0.25)
    gradients[0] = 0.0
    gradients[0, 0] = _FAR if world else -_FAR
    scores = np.full(agents, _MIDDLE)
    scores[0] = 2.0 * _MIDDLE if world else 0.0
    if privatizer.query.sampled:
        yield from _of_rounds(privatizer, gradients)
        return
    if privatizer.query.window:
        yield from _of_windows(privatizer, gradients)
        return
    lease = privatizer.lease(agents)
    outbox = GradientClient(privatizer.client_spec)
    sent = outbox.send(lease, gradients, scores)
    for values in sent.values:
        yield Message.of(_MESSAGE, values)
    estimates = privatizer.accept(sent)
    yield Message.of(_ESTIMATES, estimates.gradients)
    if estimates.bits is not None:
        yield Message.of(_SCORE_BITS, estimates.bits)
    yield _shown(lease, outbox, sent, privatizer, privatizer.channel, privatizer.ledger.users_charged)
    yield Message.of("submissions", sent.submissions)


def _of_windows(privatizer: GradientPrivatizer, gradients: Float64Array) -> Iterator[Message]:
    """Yield the sums of gradients that a trusted server releases, or reads from a shuffler, with each message."""
    channel, released = privatizer.channel, np.empty(gradients.shape[1])
    privatizer.charge(1, gradients.shape[0])
    for number, gradient in enumerate(gradients, 1):
        submit(channel, gradient, 0.0, number)
        receive(channel, released)
        yield Message.of(_ESTIMATES, released)
        yield _shown(privatizer, channel, privatizer.ledger.users_charged)


def _of_rounds(privatizer: GradientPrivatizer, gradients: Float64Array) -> Iterator[Message]:
    """Yield the sums of sampled rounds of a trusted server."""
    released = np.empty(gradients.shape[1])
    privatizer.charge(1, gradients.shape[0])
    for _ in range(cast("SampledGradientQuery", privatizer.query).rounds):
        users = draw_users(privatizer.channel)
        release_round(privatizer.channel, gradients[users - 1], released)
        yield Message.of(_ESTIMATES, released)
        yield _shown(privatizer, privatizer.channel, privatizer.ledger.users_charged)


def _of_statistics(privatizer: StatisticsPrivatizer, world: int) -> Iterator[Message]:
    """Yield the messages of linear statistics, split into the ledger's channels."""
    layout, channel, parts = privatizer.query.layout, privatizer.channel, privatizer.query
    features = np.empty((layout.n_messages, layout.horizon, layout.dimension))
    targets = np.empty(features.shape[:2])
    corrections = np.empty((layout.n_agents, layout.horizon, layout.reward_dimension))
    sums = np.zeros((*features.shape, layout.dimension)), np.zeros(features.shape)
    names = [release.channel for release in privatizer.planned_ledger().spec.releases]
    wide = parts.law.release.n_numbers
    privatizer.charge(1, privatizer.n_users)
    for user in range(1, privatizer.n_users + 1):
        far = 0.25 if user > 1 else _FAR if world else -_FAR
        features[...], targets[...], corrections[...] = 0.25, abs(far - _FAR), far
        features[..., 0] = far
        read = np.zeros(corrections.shape)
        send_statistics(channel, features, targets, corrections, user)
        if not privatizer.server_noise:
            for name, part in zip(names, (channel.message[:wide], channel.message[wide:]), strict=False):
                yield Message.of(name, part)
            yield Message.of("fractions", _off_grid(privatizer))
        add = add_statistics if release_number(channel.times, user) else aggregate_statistics
        add(channel, *sums, read)
        for array in sums:
            yield Message.of(names[0], array)
        yield Message.of(names[-1], read)
        yield _shown(privatizer, channel, channel.noise, channel.rewards)


def _off_grid(privatizer: StatisticsPrivatizer) -> Float64Array:
    """Return the distances of the last message's numbers from their grids, in grid units; 0 without a grid."""
    parts, message, place = privatizer.query, privatizer.channel.message, 0
    release, off = parts.law.release, np.zeros(privatizer.channel.message.shape[0])
    grids = [parts.law.grid(h + 1) for h in range(parts.layout.horizon) if release.bounds[h] > 0.0]
    for grid in grids * release.n_messages:
        stop = place + release.message_length
        off[place:stop] = np.mod(message[place:stop] / grid, 1.0) if grid else 0.0
        place = stop
    noise = parts.reward_law
    if noise is not None and noise.grid:
        off[place:] = np.mod(message[place:] / noise.grid, 1.0)
    return off


def _of_bits(privatizer: BitPrivatizer, world: int) -> Iterator[Message]:
    """Yield the bits as sent and as read; the worlds differ in the first user's."""
    channel = privatizer.channel
    (release,) = privatizer.planned_ledger().spec.releases
    privatizer.charge(1, privatizer.n_users)
    for user in range(1, privatizer.n_users + 1):
        send_bit(channel, world if user == 1 else 1, user)
        if not privatizer.query.block:
            yield Message.of(release.channel, channel.message)
        yield Message.of(release.channel, [receive_bit(channel)])
        yield _shown(privatizer, channel)


_RECORDERS: dict[str, Callable[[Any, int], Iterator[Message]]] = {
    CountQuery.name: _of_counts,
    GradientQuery.name: _of_gradients,
    StatisticsQuery.name: _of_statistics,
    BitQuery.name: _of_bits,
}


def _shown(*things: object) -> Message:
    # Addresses in memory differ between privatizers, but reveal nothing.
    return Message("texts", re.sub("0x[0-9a-f]+", "", " ".join(map(repr, things))).encode())
