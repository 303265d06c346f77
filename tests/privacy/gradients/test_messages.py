"""Agents' messages: noise of the right scale, bits with the right probability, and nothing else about the agents."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from dprl.privacy import GradientPrivacy, LedgerError, NoiseConfig, Streams
from dprl.privacy.queries.gradients import GradientLayout
from tests.channels import Message, differing_channels
from tests.privacy.clipped_vectors import clipped

D = 12
FAST, EXACT = NoiseConfig(), NoiseConfig(arithmetic="exact")


@pytest.mark.parametrize("noise", [FAST, EXACT])
def test_noise_of_the_whole_has_the_scale_of_its_epsilon_and_no_other(noise: NoiseConfig) -> None:
    # Kolmogorov-Smirnov on 48 000 numbers at a fixed seed; false-alarm rate of the acceptance 1e-3.
    n = 4000
    privatizer = GradientPrivacy("ldp", 2.0, clip=0.5, submissions=5).build(
        GradientLayout(D), n, Streams(0, "scale", noise)
    )
    gradient = np.linspace(-1.0, 2.0, D)
    messages = privatizer.new_client().send(privatizer.lease(n), np.tile(gradient, (n, 1)))
    x = (privatizer.accept(messages) - clipped(gradient, 0.25, False)).ravel()
    scale = 0.5 * 5 / 2.0
    assert stats.kstest(x, stats.laplace(scale=scale).cdf).pvalue > 1e-3
    for factor in (2 / 3, 3 / 2):
        assert stats.kstest(x, stats.laplace(scale=scale * factor).cdf).pvalue < 1e-50


@pytest.mark.parametrize(
    ("mechanism", "noise"),
    [
        ("clipped_laplace", FAST),
        ("clipped_laplace", EXACT),
        ("projected_random_sign", FAST),
        ("projected_random_sign", EXACT),
        ("privunit", FAST),
    ],
)
def test_all_that_leaves_an_agent_but_for_registered_noise_is_the_same(mechanism: str, noise: NoiseConfig) -> None:
    worlds = np.full((30, D), 1e-3), np.repeat([[math.nan] * D, [math.inf] * D, [1e300] * D], 10, axis=0)

    def record(world: int) -> Sequence[Message]:
        settings = GradientPrivacy("ldp", 2.0, mechanism=mechanism)
        privatizer = settings.build(GradientLayout(D), 30, Streams(3, "channels", noise))
        messages = privatizer.new_client().send(privatizer.lease(30), worlds[world])
        estimates = privatizer.accept(messages)
        shown = f"{messages!r} {privatizer.channel!r} {privatizer.certificate('x').to_dict()}"
        return [
            Message.of("message", messages.values),
            Message.of("submissions", messages.submissions),
            Message.of("estimate", estimates),
            Message("texts", shown.encode()),
            Message("finite", str(np.isfinite(estimates).all()).encode()),
        ]

    assert differing_channels(record, {"message", "estimate"}) == ()
    # The two messages do differ where they may.
    assert "message" in differing_channels(record)


@pytest.mark.parametrize("noise", [FAST, NoiseConfig(arithmetic="exact", entropy="os")])
def test_bits_and_what_is_sent_in_clear_are_of_different_keys(noise: NoiseConfig) -> None:
    settings = GradientPrivacy("ldp", 2.0, mechanism="projected_random_sign")
    channel = settings.build(GradientLayout(D), 9, Streams(3, "keys", noise)).channel
    keys = channel.noise.noise.key, channel.noise.open_key
    assert len({int(word) for key in keys for word in key[1:]}) == 8


def test_what_would_repeat_noise_cannot_be_copied() -> None:
    privatizer = GradientPrivacy("ldp", 2.0, mechanism="privunit").build(GradientLayout(D), 9, Streams(3, "copy"))
    sender = privatizer.new_client()
    for thing in (privatizer, sender):
        for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(LedgerError, match="cannot be copied or pickled"):
                attempt(thing)
    for held in (privatizer.channel, privatizer.channel.noise):
        with pytest.raises(TypeError, match="noise cannot be copied or pickled"):
            pickle.dumps(held)
        assert "array" not in repr(held)
