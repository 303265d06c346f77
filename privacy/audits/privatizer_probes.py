"""Probes of whole privatizers: many executions of a run's kernels, with the first user replaced.

A message of one user is independent of all others, so every run is a user. A counter's prefixes belong together, so
every run restarts the same channel with fresh noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np

from dprl.compiled import kernel
from dprl.privacy import CountPrivatizer
from dprl.privacy.audits.distinguishing_attack import Key, Probe
from dprl.privacy.audits.message_probes import Cells, additive_ratios
from dprl.privacy.base import Float64Array, Int64Array
from dprl.privacy.counters import BinaryTree
from dprl.privacy.counters.base import Counter, node_of
from dprl.privacy.counters.release import release_prefix
from dprl.privacy.mechanisms.gram import GramGaussian, GramRelease, attaining_pair
from dprl.privacy.mechanisms.reports import UnaryEncoder
from dprl.privacy.queries.base import CHARGED
from dprl.privacy.queries.count_layout import CountFamilies, CountFamily, UserRecord, add_record
from dprl.privacy.queries.counts import CountChannel, encode, send_and_aggregate
from dprl.privacy.queries.counts import release as write_release
from dprl.privacy.queries.linear_statistics import StatisticsChannel, StatisticsQuery, send_statistics
from dprl.privacy.randomness.bits import KEY_WORDS, fill_bits
from dprl.privacy.randomness.streams import Streams, derived_key

COVARIANCE_RUNS = 1 << 14
_SEED_OF_COVARIANCE = 0


def _prefix_probe(
    description: str,
    counter: Counter,
    rows: tuple[Float64Array, Float64Array],
    release: Callable[[int, int, Key], Float64Array],
    noise: Callable[[], Float64Array],
) -> Probe:
    """Return the probe of noisy prefixes that a counter releases; the first user's row differs between the worlds.

    Scores are exact log likelihood ratios for a binary tree; for other counters they are the best linear statistic of
    each cell's prefixes: the exact ratio under Gaussian noise.

    Args:
        description: the configuration, in a few words. counter: with its noise.
        rows: the first user's row in world 1 and in world 0, float64[cells] each.
        release: returns prefixes float64[T, runs, cells] without the other users for (world, runs, key).
        noise: returns noise of one cell's prefixes, float64[T, n].
    """
    ones, zeros = rows

    @cache
    def weights() -> Float64Array:
        """Return the inverse covariance of a cell's prefixes times the all-ones vector, float64[T], by simulation."""
        covariance = np.atleast_2d(np.cov(noise()))
        return np.asarray(np.linalg.solve(covariance, np.ones(covariance.shape[0])), dtype=np.float64)

    def scores(world: int, runs: int, key: Key) -> Float64Array:
        prefixes = release(world, runs, key)
        if isinstance(counter, BinaryTree):
            # Prefix 2^i is the only node of its level that includes the first user.
            nodes = [prefixes[(1 << i) - 1] for i in range(counter.n_items.bit_length())]
            law = node_of(counter)
            return np.asarray(np.sum([law.log_ratios(y, ones, zeros).sum(axis=1) for y in nodes], axis=0))
        weighted = np.tensordot(weights(), prefixes - (ones + zeros) / 2.0, axes=1)
        return np.asarray(weighted @ (ones - zeros))

    return Probe(description, scores)


def counter_prefixes(counter: Counter, ones: Cells, zeros: Cells, label: str) -> Probe:
    """Return the probe of a counter that no other user enters.

    Runs are cells of one counter, side by side, because the noise of cells is independent.
    """
    description = f"{label}, {counter.name}, scale {node_of(counter).scale:.4g}"
    one, zero = np.array(ones), np.array(zeros)

    def released(row: Float64Array, runs: int, key: Key) -> Float64Array:
        cells = runs * row.shape[0]
        state, totals = counter.open(cells, key), np.tile(row, runs)
        prefixes = np.empty((counter.n_items, cells))
        for item in range(1, counter.n_items + 1):
            release_prefix(prefixes[item - 1], totals, state, item)
        return prefixes.reshape(counter.n_items, runs, row.shape[0])

    def noise() -> Float64Array:
        key = Streams(_SEED_OF_COVARIANCE, f"audit|covariance|{description}").key("server_noise")
        return released(np.zeros(1), COVARIANCE_RUNS, key)[:, :, 0]

    release = lambda world, runs, key: released(one if world else zero, runs, key)  # noqa: E731
    return _prefix_probe(description, counter, (one, zero), release, noise)


# Runs side by side: a few MB at the probes' sizes.
_BATCH = 2048
_KEY_WORDS = 4
# Cells per step: families with more than the first are shrunk, those without marginals to the second.
_MOST_CELLS, _FEW_CELLS = 32, 4
# Any constant, because the stream of keys must not be that of noise.
_OTHER_STREAM = np.uint64(0x9E3779B97F4A7C15)
_Inputs = tuple[Float64Array, Float64Array, Float64Array]


def probe_families(families: CountFamilies, n_steps: int) -> CountFamilies:
    """Return `families` for `n_steps` steps, and with fewer cells if they are wide.

    A replaced user changes two cells of every step and family for any number of cells. Marginals stay marginals.
    """
    short = replace(families, n_steps=n_steps)
    if families.block <= _MOST_CELLS:
        return short
    width = {family.name: _shrunk(family, families) for family in families.families}
    return replace(short, families=tuple(replace(family, width=width[family.name]) for family in families.families))


def _shrunk(family: CountFamily, families: CountFamilies) -> int:
    """Return a small width for `family`: a multiple of its marginals' widths, and larger if it was."""
    marginals = [one for one in families.families if one.marginal_of == family.name and one != family]
    if not marginals:
        return min(family.width, _FEW_CELLS)
    larger = family.width > max(one.width for one in marginals)
    return math.lcm(*(_shrunk(one, families) for one in marginals)) * (2 if larger else 1)


def canary(families: CountFamilies, world: int) -> UserRecord:
    """Return the first user's record in world 0 or 1; the two records share no cell in any family and step."""
    width = np.array([family.width for family in families.families], dtype=np.int64)
    shape = (families.n_steps, width.shape[0])
    index = np.zeros(shape, dtype=np.int64)
    return UserRecord(index if world else index + width - 1, np.ones(shape))


def filler_user(families: CountFamilies) -> UserRecord:
    """Return every other user's record, the same in both worlds: first cells, with values that need no coins."""
    shape = (families.n_steps, len(families.families))
    return UserRecord(np.zeros(shape, dtype=np.int64), np.ones(shape))


def local_reports(privatizer: CountPrivatizer, label: str) -> Probe:
    """Return the probe of a local privatizer's reports. privatizer: a fresh one; it is used up."""
    channel, families, report = privatizer.channel, privatizer.query.families, privatizer.query.report
    if report is None:
        raise ValueError("report must randomize what is sent, got None; nothing is left to measure")
    ones, zeros = (sent_row(privatizer, canary(families, world)) for world in (1, 0))

    def scores(world: int, runs: int, key: Key) -> Float64Array:
        contribution = canary(families, world)
        channel.noise.key[1:] = key[1:]
        channel.coins_key[1:] = _words(key, 1)[0]
        channel.cursor[:] = 0
        channel.cursor[CHARGED] = runs
        messages = np.empty((runs, channel.message.shape[0]))
        _reports(messages, channel, contribution.index, contribution.value)
        if not isinstance(report, UnaryEncoder):
            return np.asarray(report.log_ratios(messages, ones, zeros).sum(axis=1))
        signs = (ones - zeros).reshape(report.n_steps, -1)
        # Of the step that is sent: 1 for world 1's hot cell, -1 for world 0's, 0 for all others.
        bits, signs = messages[:, 1:], signs[messages[:, 0].astype(np.int64)]
        one, zero = report.encoding.losses
        return np.asarray(((bits * one + (1.0 - bits) * zero) * signs).sum(axis=1))

    return Probe(label, scores)


def central_prefixes(privatizer: CountPrivatizer, label: str) -> Probe:
    """Return the probe of all counts that a central privatizer releases. privatizer: a fresh one; it is used up."""
    families, counter, channel = privatizer.query.families, privatizer.query.counter, privatizer.channel
    ones, zeros = (sent_row(privatizer, canary(families, world)) for world in (1, 0))
    changed = np.flatnonzero(ones != zeros)
    others = sent_row(privatizer, filler_user(families))[changed]

    def release(world: int, runs: int, key: Key) -> Float64Array:
        prefixes = _released(privatizer, canary(families, world), runs, key, changed)
        prefixes -= (_times(privatizer) - 1)[None, :, None] * others
        return prefixes.swapaxes(0, 1)

    def noise() -> Float64Array:
        key = channel.counter.node.key.copy()
        found = _released(privatizer, canary(families, 0), COVARIANCE_RUNS, key, np.zeros(1, np.int64))
        return found[:, :, 0].T

    return _prefix_probe(label, counter, (ones[changed], zeros[changed]), release, noise)


def _times(privatizer: CountPrivatizer) -> Int64Array:
    """Return the numbers of users after which there is a release, int64[T]."""
    schedule = privatizer.query.schedule
    return np.arange(1, privatizer.query.counter.n_items + 1) if schedule is None else schedule.times


def _released(privatizer: CountPrivatizer, first: UserRecord, runs: int, key: Key, kept: Int64Array) -> Float64Array:
    """Return every released prefix of the cells `kept` of a message, float64[runs, T, len(kept)]."""
    channel, counter = privatizer.channel, privatizer.query.counter
    cells = channel.noisy.shape[0]
    others = filler_user(privatizer.query.families)
    released, times = np.empty((runs, counter.n_items, kept.shape[0])), _times(privatizer)
    held = counter.open(1, key).held
    for start in range(0, runs, _BATCH):
        part = released[start : start + _BATCH]
        keys = _words(key, part.shape[0] + 1, start)
        opened = key.copy()
        opened[1:] = keys[-1]
        # Counters that store all their noise draw it here, for all runs side by side.
        rows = counter.open(part.shape[0] * cells, opened).rows
        rows = np.ascontiguousarray(rows.reshape(rows.shape[0], part.shape[0], cells).swapaxes(0, 1))
        records = (first.index, others.index), (first.value, others.value)
        _prefixes(part, channel, times, records, (rows, held, kept), keys)
    return released


def sent_row(privatizer: CountPrivatizer, contribution: UserRecord) -> Float64Array:
    """Return the message of a record before any noise, float64[cells]; for bits, one per cell and step."""
    channel, released = privatizer.channel, privatizer.query.encoding.released
    slots, layers = channel.slots, released.layers
    if isinstance(privatizer.query.report, UnaryEncoder):
        slots, layers = slots._replace(stride=slots.block), released.n_steps
    row = np.zeros(layers * released.block)
    add_record(slots, row, contribution.index, contribution.value, np.zeros_like(channel.coins))
    return row


def _words(key: Key, n: int, first: int = 0) -> Key:
    """Return n times four words determined by `key`, uint64[n, 4]."""
    words = np.empty(n * _KEY_WORDS, dtype=np.uint64)
    derived = key.copy()
    derived[1:] ^= _OTHER_STREAM
    fill_bits(words, derived, np.uint64(first * _KEY_WORDS))
    # The second word of a key is an increment, always odd.
    words[1::_KEY_WORDS] |= np.uint64(1)
    return words.reshape(n, _KEY_WORDS)


@kernel
def _reports(messages: Float64Array, channel: CountChannel, index: Int64Array, value: Float64Array) -> None:
    """Fill messages float64[runs, n] with the reports of users 1..runs, all with the same record."""
    for run in range(messages.shape[0]):
        encode(channel, index, value, run + 1)
        messages[run] = channel.message


@kernel
def _prefixes(
    released: Float64Array,
    channel: CountChannel,
    times: Int64Array,
    records: tuple[tuple[Int64Array, Int64Array], tuple[Float64Array, Float64Array]],
    opened: tuple[Float64Array, Int64Array, Int64Array],
    keys: np.ndarray,
) -> None:
    """Fill released float64[runs, T, kept] with some of the released counts of T releases.

    times int64[T]: numbers of users at releases; records: (index, value) of the first user and of all others; opened:
    the counter's rows float64[runs, rows, cells] and held int64[rows], and the kept cells; keys uint64[runs, 4]: of the
    noise drawn later.
    """
    index, value = records
    rows, held, kept = opened
    counter = channel.counter
    for run in range(released.shape[0]):
        channel.totals[:] = 0.0
        counter.rows[:] = rows[run]
        counter.held[:] = held
        counter.node.key[1:] = keys[run]
        channel.cursor[:] = 0
        channel.cursor[CHARGED] = times[-1]
        user = 0
        for item in range(released.shape[1]):
            while user < times[item]:
                user += 1
                who = min(user - 1, 1)
                send_and_aggregate(channel, index[who], value[who], user)
            write_release(channel)
            for i in range(kept.shape[0]):
                released[run, item, i] = channel.noisy[kept[i]]


def statistics_messages(parts: StatisticsQuery, label: str, reach: float = 1.0) -> Probe:
    """Return the probe of messages of linear statistics with the largest changes of features and corrections.

    Corrections sent without noise are the same in both worlds, and do not count here. reach: length of the features in
    units of the bound; above 1 it reveals a device that does not clip them.
    """
    mechanism, layout, noise = parts.law, parts.layout, parts.reward_law
    if isinstance(mechanism, GramRelease):
        raise ValueError("mechanism must randomize what is sent, got none; nothing is left to measure")
    # Without noise and rounding.
    rewards = "open" if parts.rewards == "noisy" else parts.rewards
    raw = replace(parts, law=mechanism.release, rewards=rewards, reward_law=None)
    no_key = np.zeros(KEY_WORDS, dtype=np.uint64)
    one, zero = (_sent(raw, _inputs(parts, reach, world), 1, no_key)[0] for world in (1, 0))

    def scores(world: int, runs: int, key: Key) -> Float64Array:
        sent = _sent(parts, _inputs(parts, reach, world), runs, key)
        total, place, length = np.zeros(sent.shape[0]), 0, mechanism.release.message_length
        for _ in range(layout.n_messages):
            for h in range(layout.horizon):
                if mechanism.release.bounds[h] > 0.0:
                    ends, off_diagonal = mechanism.stage_mechanisms(h + 1)
                    middle, stop = place + 2 * layout.dimension, place + length
                    for law, part in ((ends, slice(place, middle)), (off_diagonal, slice(middle, stop))):
                        total += law.log_ratios(sent[:, part], one[part], zero[part]).sum(axis=1)
                    place = stop
        if noise is not None:
            total += additive_ratios(noise.additive, noise.grid, sent[:, place:], one[place:], zero[place:])
        return total

    return Probe(label, scores)


def statistics_prefixes(parts: StatisticsQuery, label: str) -> Probe:
    """Return the probe of all sums that a trusted server releases, with the largest change of the first user."""
    if parts.counter is None:
        raise ValueError("statistics must be counted by a trusted server, got messages; probe those")
    no_key = np.zeros(KEY_WORDS, dtype=np.uint64)
    units = parts.open(Streams(0, "audit|units")).units
    one, zero = (_sent(parts, _inputs(parts, 1.0, world), 1, no_key)[0] / units for world in (1, 0))
    changed = np.flatnonzero(one != zero)
    return counter_prefixes(parts.counter, tuple(one[changed]), tuple(zero[changed]), label)


def _inputs(parts: StatisticsQuery, reach: float, world: int) -> _Inputs:
    """Return features [M, H, D], targets [M, H] and corrections [n, H, p] of a user with the largest changes."""
    layout = parts.layout
    bounds = np.array(parts.release.bounds)
    features = np.zeros((layout.n_messages, layout.horizon, layout.dimension))
    if parts.noisy_sides != (False, False):
        for h, bound in enumerate(bounds):
            # Nearly the largest change in L1, or in L2: two features at the cosine -1/2.
            one, zero = attaining_pair(layout.dimension, bound)
            if parts.mechanism == GramGaussian.name:
                one[:], zero[:] = 0.0, 0.0
                one[0], zero[0], zero[1] = bound, -bound / 2.0, bound * math.sqrt(0.75)
            features[:, h] = reach * (one if world else zero)
    corrections = np.zeros((layout.n_agents, layout.horizon, layout.reward_dimension))
    if parts.rewards == "noisy":
        corrections[..., 0] = parts.reward_clip if world else -parts.reward_clip
    return features, np.broadcast_to(bounds, features.shape[:2]).copy(), corrections


def _sent(parts: StatisticsQuery, inputs: _Inputs, runs: int, key: Key) -> Float64Array:
    """Return the messages of users 1..runs, float64[runs, m], all with the same inputs."""
    channel = parts.opened(key, derived_key(key, "reward corrections"))
    channel.cursor[CHARGED] = runs
    messages = np.empty((runs, channel.message.shape[0]))
    _send_all(messages, channel, inputs)
    return messages


@kernel
def _send_all(messages: Float64Array, channel: StatisticsChannel, inputs: _Inputs) -> None:
    features, targets, corrections = inputs
    for run in range(messages.shape[0]):
        send_statistics(channel, features, targets, corrections, run + 1)
        messages[run] = channel.message
