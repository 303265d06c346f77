"""Probes of the one message that a user sends: noisy statistics of a linear model, or a randomised bit.

Every run is a user of one channel, through the same kernels as in a run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dprl.compiled import kernel
from dprl.privacy.audits.probes_gram import furthest_features, gram_ratios
from dprl.privacy.audits.probes_vectors import additive_ratios
from dprl.privacy.audits.two_worlds import Key
from dprl.privacy.base import Float64Array
from dprl.privacy.bits import BitChannel, BitPrivatizer, send_bit
from dprl.privacy.linear_statistics.channels import StatisticsChannel, send_statistics
from dprl.privacy.linear_statistics.privatizers import StatisticsParts, open_channel
from dprl.privacy.mechanisms.gram_base import RawGram
from dprl.privacy.randomness.bits import KEY_WORDS
from dprl.privacy.randomness.streams import derived_key
from dprl.privacy.submitting import CHARGED

Inputs = tuple[Float64Array, Float64Array, Float64Array]
"""What a user's device has: features [M, H, D], targets [M, H], corrections [n, H, p]."""


@dataclass(frozen=True)
class StatisticsMessages:
    """What users of a linear model send; at every stage features and corrections are those that change most.

    Corrections that are sent as they are count for nothing here, and are the same in both worlds.

    Args:
        parts: what is sent, with which noise.
        label: for the description.
        reach: how many times as long as the bound features are; above 1 it shows what a device does not cut.
    """

    parts: StatisticsParts
    label: str
    reach: float = 1.0

    @property
    def description(self) -> str:
        """The configuration."""
        return self.label

    def scores(self, world: int, runs: int, key: Key) -> Float64Array:
        """Return log likelihood ratios of `runs` messages, float64[runs]."""
        sent = _sent(self.parts, self._inputs(world), runs, key)
        one, zero = (self._without_noise(w) for w in (1, 0))
        mechanism, layout = self.parts.mechanism, self.parts.layout
        if isinstance(mechanism, RawGram):
            raise ValueError("mechanism must randomise what is sent, got none; nothing is left to measure")
        total, place, length = np.zeros(runs), 0, mechanism.release.message_length
        for _ in range(layout.n_messages):
            for h in range(layout.horizon):
                if mechanism.release.bounds[h] > 0.0:
                    part = slice(place, place + length)
                    total += gram_ratios(mechanism, h + 1, sent[:, part], one[part], zero[part])
                    place += length
        noise = self.parts.reward_noise
        if noise is not None:
            total += additive_ratios(noise.additive, noise.grid)(sent[:, place:], one[place:], zero[place:])
        return total

    def _inputs(self, world: int) -> Inputs:
        layout, mechanism = self.parts.layout, self.parts.mechanism
        bounds = np.array(mechanism.release.bounds)
        features = np.zeros((layout.n_messages, layout.horizon, layout.dimension))
        if not isinstance(mechanism, RawGram):
            for h in range(layout.horizon):
                features[:, h] = self.reach * furthest_features(mechanism, h + 1)[1 - world]
        corrections = np.zeros((layout.n_agents, layout.horizon, layout.reward_dimension))
        if self.parts.rewards == "noisy":
            corrections[..., 0] = self.parts.reward_clip if world else -self.parts.reward_clip
        return features, np.broadcast_to(bounds, features.shape[:2]).copy(), corrections

    def _without_noise(self, world: int) -> Float64Array:
        """Return the message without noise and rounding, float64[m]."""
        rewards, release = self.parts.rewards, self.parts.mechanism.release
        raw = replace(
            self.parts,
            mechanism=RawGram(release),
            rewards="open" if rewards == "noisy" else rewards,
            reward_noise=None,
        )
        found: Float64Array = _sent(raw, self._inputs(world), 1, np.zeros(KEY_WORDS, dtype=np.uint64))[0]
        return found


def _sent(parts: StatisticsParts, inputs: Inputs, runs: int, key: Key) -> Float64Array:
    """Return the messages of users 1..runs, float64[runs, m], all with the same inputs."""
    channel = open_channel(parts, key, derived_key(key, "reward corrections"))
    channel.turns[CHARGED] = runs
    messages = np.empty((runs, channel.message.shape[0]))
    _send_all(messages, channel, *inputs)
    return messages


@kernel
def _send_all(
    messages: Float64Array,
    channel: StatisticsChannel,
    features: Float64Array,
    targets: Float64Array,
    corrections: Float64Array,
) -> None:
    for run in range(messages.shape[0]):
        send_statistics(channel, features, targets, corrections, run + 1)
        messages[run] = channel.message


@dataclass(frozen=True, eq=False)
class BitMessages:
    """The randomised bit that a user sends; the worlds are its two values.

    Args:
        privatizer: a fresh one; it is used up.
    """

    privatizer: BitPrivatizer

    @property
    def description(self) -> str:
        """The configuration."""
        return f"one bit, truth with probability {self.privatizer.truth:.4g}"

    def scores(self, world: int, runs: int, key: Key) -> Float64Array:
        """Return the bits as sent, float64[runs]."""
        channel = self.privatizer.channel
        channel.key[1:] = key[1:]
        channel.turns[:] = 0
        channel.turns[CHARGED] = runs
        bits = np.empty(runs)
        _send_bits(bits, channel, world)
        return bits


@kernel
def _send_bits(bits: Float64Array, channel: BitChannel, bit: int) -> None:
    for run in range(bits.shape[0]):
        send_bit(channel, bit, run + 1)
        bits[run] = channel.message[0]
