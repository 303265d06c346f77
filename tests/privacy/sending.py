"""One user at a time, from the record to what is released."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numba import typeof

from dprl.privacy import CountPrivatizer, SubmissionRange, UserRecord
from dprl.privacy.base import Float64Array
from dprl.privacy.mechanisms.gram import Gram, GramRelease
from dprl.privacy.mechanisms.sampling import SILENT
from dprl.privacy.mechanisms.vectors import VectorMechanism, fill_message
from dprl.privacy.queries.base import CHARGED
from dprl.privacy.queries.counts import Released, add_message
from dprl.privacy.queries.gradients import estimate_all
from dprl.privacy.queries.linear_statistics import StatisticsLayout, StatisticsQuery, add_statistics, send_statistics


def part_of(lease: SubmissionRange, start: int, stop: int) -> SubmissionRange:
    """Return items start..stop-1 of a range, as of a list."""
    return replace(lease, first=lease.first + start, last=lease.first + stop - 1)


def message_of(privatizer: CountPrivatizer, record: UserRecord, user: int) -> Float64Array:
    """Charge `user` and return their message, which is still to be received."""
    privatizer.query.check_record(record)
    privatizer.charge(user, user)
    privatizer.query.send(privatizer.channel, record, user)
    message: Float64Array = privatizer.channel.message.copy()
    return message


def sent(privatizer: CountPrivatizer, record: UserRecord, user: int) -> Released:
    """Send and receive the message of `user`, and return the counts of all users so far."""
    message_of(privatizer, record, user)
    add_message(privatizer.channel)
    released: Released = privatizer.release()
    return released


def estimated(mechanism: VectorMechanism, messages: Sequence[Float64Array] | Float64Array) -> Float64Array:
    """Return the server's estimates from messages, float64[k, d]."""
    out = np.empty((len(messages), mechanism.dimension))
    estimate_all(out, np.array(messages), mechanism.vector_noise(SILENT.key))
    return out


def randomized(mechanism: VectorMechanism, vector: Float64Array, key: np.ndarray, number: int) -> Float64Array:
    """Return the message of submission `number` for a vector."""
    (message,) = randomized_all(mechanism, vector, key, [number])
    return np.asarray(message)


def randomized_all(
    mechanism: VectorMechanism, vector: Float64Array, key: np.ndarray, numbers: Sequence[int]
) -> Float64Array:
    """Return the messages of submissions `numbers` for a vector, float64[k, m]."""
    noise = mechanism.vector_noise(key)
    messages = np.empty((len(numbers), noise.message_length))
    fill = typed(fill_message, messages[0], vector, noise, numbers[0])
    for message, number in zip(messages, numbers, strict=True):
        fill(message, vector, noise, number)
    return messages


def typed(kernel: Any, *arguments: object) -> Any:
    """Return a kernel for arguments of these types, without the search for them that each call begins with."""
    return kernel.dispatcher.compile(tuple(map(typeof, arguments))) if hasattr(kernel, "dispatcher") else kernel


def gram_messages(
    mechanism: Gram | GramRelease, phi: Float64Array, value: float, stage: int, key: np.ndarray, n: int
) -> Float64Array:
    """Return a stage's messages of n users with the same input: float64[n, D + 1, D], the right-hand side last."""
    release = mechanism if isinstance(mechanism, GramRelease) else mechanism.release
    layout = StatisticsLayout(len(release.bounds), release.dimension, release.n_messages, release.n_messages, 1)
    channel = StatisticsQuery(layout, mechanism, "public").opened(key, key)
    channel.cursor[CHARGED] = n
    shape = layout.n_messages, layout.horizon
    features, targets = np.zeros((*shape, layout.dimension)), np.zeros(shape)
    features[0, stage - 1], targets[0, stage - 1] = phi, value
    found = np.empty((n, layout.dimension + 1, layout.dimension))
    for user in range(n):
        matrices, vectors = np.zeros((*shape, *found.shape[2:], found.shape[2])), np.zeros(features.shape)
        send_statistics(channel, features, targets, np.zeros((0, 0, 0)), user + 1)
        add_statistics(channel, matrices, vectors, np.zeros((0, 0, 0)))
        upper = matrices[0, stage - 1]
        found[user, :-1], found[user, -1] = upper + np.triu(upper, 1).T, vectors[0, stage - 1]
    return found
