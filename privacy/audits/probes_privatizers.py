"""Probes of a whole privatizer: the same kernels as a run's, many times over, with the first user replaced.

A local report is independent of all others, so every run is a user. A counter's prefixes belong together, so every run
starts the same channel anew with noise of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from dprl.compiled import kernel
from dprl.privacy.audits.probes_cells import log_ratios
from dprl.privacy.audits.probes_counters import best_linear_weights, tree_ratios
from dprl.privacy.audits.probes_vectors import unary_ratios
from dprl.privacy.audits.two_worlds import Key
from dprl.privacy.base import Contribution, CountFamilies, CountFamily, Float64Array, Int64Array
from dprl.privacy.counters.base import Counter
from dprl.privacy.counters.binary_tree import BinaryTree
from dprl.privacy.counts.exchange import ABSORBED, CHARGED, ENCODED, SENT, Channel, encode, exchange
from dprl.privacy.counts.layouts import add_contribution
from dprl.privacy.counts.privatizers import Privatizer
from dprl.privacy.mechanisms.base import Mechanism
from dprl.privacy.mechanisms.unary_report import UnaryReport
from dprl.privacy.randomness.bits import fill_bits

# How many runs are laid side by side: a few MB at the probes' sizes.
_BATCH = 2048
_COVARIANCE_RUNS = 1 << 14
_KEY_WORDS = 4
# Cells of a step: above the one, families are shrunk, and those without marginals to the other.
_MOST_CELLS, _FEW_CELLS = 32, 4
_FRACTIONS = (0.25, 0.75)
# Any constant: what makes keys must not be what makes noise.
_OTHER_STREAM = np.uint64(0x9E3779B97F4A7C15)


def probe_families(families: CountFamilies, n_steps: int) -> CountFamilies:
    """Return `families` for `n_steps` steps, and with fewer cells if they are wide.

    A replaced user changes two cells of every step and family, however many there are. Marginals stay marginals.
    """
    short = replace(families, n_steps=n_steps)
    if families.block <= _MOST_CELLS:
        return short
    width = {family.name: _shrunk(family, families) for family in families.families}
    return replace(short, families=tuple(replace(family, width=width[family.name]) for family in families.families))


def _shrunk(family: CountFamily, families: CountFamilies) -> int:
    """Return a small width of `family`: a multiple of those of its marginals, larger than each if it was."""
    marginals = [one for one in families.families if one.marginal_of == family.name and one != family]
    if not marginals:
        return min(family.width, _FEW_CELLS)
    larger = family.width > max(one.width for one in marginals)
    return math.lcm(*(_shrunk(one, families) for one in marginals)) * (2 if larger else 1)


def canary(families: CountFamilies, world: int, fractions: bool = False) -> Contribution:
    """Return the first user's record in world 0 or 1: in no family and step do the two share a cell.

    fractions: let the worlds' values in [0, 1] differ as well, in what follows the point; otherwise all are 1.
    """
    width = np.array([family.width for family in families.families], dtype=np.int64)
    shape = (families.n_steps, width.shape[0])
    index = np.broadcast_to(np.zeros_like(width) if world else width - 1, shape)
    valued = np.array([fractions and not family.indicator for family in families.families])
    return Contribution(index.copy(), np.broadcast_to(np.where(valued, _FRACTIONS[world], 1.0), shape).copy())


def bystander(families: CountFamilies) -> Contribution:
    """Return every other user's record, the same in both worlds: first cells, nothing that is a coin."""
    shape = (families.n_steps, len(families.families))
    return Contribution(np.zeros(shape, dtype=np.int64), np.ones(shape))


@dataclass(frozen=True, eq=False)
class LocalReports:
    """What users of a local privatizer send.

    Args:
        privatizer: a fresh one for at least `most_runs` users; it is used up.
        label: for the description.
    """

    privatizer: Privatizer
    label: str

    @property
    def description(self) -> str:
        """The configuration."""
        return self.label

    def scores(self, world: int, runs: int, key: Key) -> Float64Array:
        """Return log likelihood ratios of `runs` reports, float64[runs]."""
        channel = self.privatizer.channel
        contribution = canary(self.privatizer.families, world)
        channel.sender.noise.key[1:] = key[1:]
        channel.sender.coins_key[1:] = _words(key, 1)[0]
        channel.users[:] = 0
        channel.users[CHARGED] = runs
        messages = np.empty((runs, channel.sender.message.shape[0]))
        _reports(messages, channel, contribution.index, contribution.value)
        ones, zeros = (sent_row(self.privatizer, canary(self.privatizer.families, w)) for w in (1, 0))
        return _message_ratios(self.privatizer.noise.report, messages, ones, zeros)


@dataclass(frozen=True, eq=False)
class CentralPrefixes:
    """All counts that a central privatizer releases, of all its users.

    Args:
        privatizer: a fresh one; it is used up.
        label: for the description.
    """

    privatizer: Privatizer
    label: str
    _weights: list[Float64Array] = field(default_factory=list, repr=False)

    @property
    def description(self) -> str:
        """The configuration."""
        return self.label

    def scores(self, world: int, runs: int, key: Key) -> Float64Array:
        """Return what speaks for world 1, float64[runs]; exact log likelihood ratios for a binary tree."""
        families, counter = self.privatizer.families, self.privatizer.noise.counter
        ones, zeros = (sent_row(self.privatizer, canary(families, w)) for w in (1, 0))
        changed = np.flatnonzero(ones != zeros)
        others = sent_row(self.privatizer, bystander(families))[changed]
        prefixes = self._released(canary(families, world), runs, key, changed)
        prefixes -= np.arange(counter.n_items)[None, :, None] * others
        return self._prefix_scores(counter, prefixes, ones[changed], zeros[changed])

    def _prefix_scores(
        self, counter: Counter, prefixes: Float64Array, ones: Float64Array, zeros: Float64Array
    ) -> Float64Array:
        """Return the scores of prefixes float64[runs, T, cells] that are without the other users."""
        if isinstance(counter, BinaryTree):
            return tree_ratios(counter, prefixes.swapaxes(0, 1), ones, zeros)
        if not self._weights:
            key = self.privatizer.channel.receiver.counter.node.key.copy()
            noise = self._released(canary(self.privatizer.families, 0), _COVARIANCE_RUNS, key, np.zeros(1, np.int64))
            self._weights.append(best_linear_weights(noise[:, :, 0].T))
        weighted = np.tensordot(prefixes - (ones + zeros) / 2.0, self._weights[0], axes=([1], [0]))
        return weighted @ (ones - zeros)

    def _released(self, first: Contribution, runs: int, key: Key, kept: Int64Array) -> Float64Array:
        """Return every released prefix of the cells `kept` of what is sent, float64[runs, T, len(kept)]."""
        channel, counter = self.privatizer.channel, self.privatizer.noise.counter
        cells = channel.receiver.noisy.shape[0]
        others = bystander(self.privatizer.families)
        released = np.empty((runs, counter.n_items, kept.shape[0]))
        held = counter.open(1, key).held
        for start in range(0, runs, _BATCH):
            part = released[start : start + _BATCH]
            keys = _words(key, part.shape[0] + 1, start)
            opened = key.copy()
            opened[1:] = keys[-1]
            # Counters that keep all their noise have drawn it by then: one that is wide enough for all runs.
            rows = counter.open(part.shape[0] * cells, opened).rows
            rows = np.ascontiguousarray(rows.reshape(rows.shape[0], part.shape[0], cells).swapaxes(0, 1))
            records = (first.index, others.index), (first.value, others.value)
            _prefixes(part, channel, records, (rows, held, kept), keys)
        return released


def sent_row(privatizer: Privatizer, contribution: Contribution) -> Float64Array:
    """Return what is sent of a record before any noise, float64[cells]."""
    channel = privatizer.channel
    row = np.zeros(privatizer.layout.released.n_cells)
    add_contribution(channel.slots, row, contribution.index, contribution.value, np.zeros_like(channel.sender.coins))
    return row


def _words(key: Key, n: int, first: int = 0) -> Key:
    """Return n times four words that `key` decides, uint64[n, 4]."""
    words = np.empty(n * _KEY_WORDS, dtype=np.uint64)
    derived = key.copy()
    derived[1:] ^= _OTHER_STREAM
    fill_bits(words, derived, np.uint64(first * _KEY_WORDS))
    # The second word of a key is an increment, which is odd.
    words[1::_KEY_WORDS] |= np.uint64(1)
    return words.reshape(n, _KEY_WORDS)


def _message_ratios(
    report: Mechanism | UnaryReport | None, messages: Float64Array, ones: Float64Array, zeros: Float64Array
) -> Float64Array:
    """Return ln P(message | ones) / P(message | zeros), float64[runs]; rows float64[cells] are those of the worlds."""
    if report is None:
        raise ValueError("report must randomise what is sent, got None; nothing is left to measure")
    if not isinstance(report, UnaryReport):
        return np.asarray(log_ratios(report, messages, ones, zeros).sum(axis=1))
    signs = (ones - zeros).reshape(report.n_steps, -1)
    if not report.sampled:
        return unary_ratios(report.encoding, messages, np.broadcast_to(signs.reshape(-1), messages.shape))
    return unary_ratios(report.encoding, messages[:, 1:], signs[messages[:, 0].astype(np.int64)])


@kernel
def _reports(messages: Float64Array, channel: Channel, index: Int64Array, value: Float64Array) -> None:
    """Fill messages float64[runs, n] with the reports of users 1..runs, all with the same record."""
    for run in range(messages.shape[0]):
        encode(channel, index, value, run + 1)
        messages[run] = channel.sender.message


@kernel
def _prefixes(
    released: Float64Array,
    channel: Channel,
    records: tuple[tuple[Int64Array, Int64Array], tuple[Float64Array, Float64Array]],
    opened: tuple[Float64Array, Int64Array, Int64Array],
    keys: np.ndarray,
) -> None:
    """Fill released float64[runs, T, kept] with some of the counts that T users give.

    records: (index, value) of the first user, each beside those of all others; opened: the counter's rows
    float64[runs, rows, cells] and held int64[rows], and which cells are kept; keys uint64[runs, 4]: of the noise that
    is drawn later.
    """
    index, value = records
    rows, held, kept = opened
    counter = channel.receiver.counter
    for run in range(released.shape[0]):
        channel.receiver.totals[:] = 0.0
        counter.rows[:] = rows[run]
        counter.held[:] = held
        counter.node.key[1:] = keys[run]
        channel.users[ABSORBED] = 0
        channel.users[ENCODED] = 0
        channel.users[SENT] = 0
        channel.users[CHARGED] = released.shape[1]
        for item in range(released.shape[1]):
            who = min(item, 1)
            exchange(channel, index[who], value[who], item + 1)
            for i in range(kept.shape[0]):
                released[run, item, i] = channel.receiver.noisy[kept[i]]
