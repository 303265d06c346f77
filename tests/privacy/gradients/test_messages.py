"""Agents' messages: noise of the right scale, bits with the right probability, and nothing else about the agents."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from dprl.privacy import GradientClient, LedgerError, LocalGradientPrivacy, NoiseConfig, Streams
from dprl.privacy.queries.gradient_calibration import GradientLayout
from tests.channels import Message, differing_channels
from tests.privacy.clipped_vectors import clipped

D = 12
FAST, EXACT = NoiseConfig(), NoiseConfig(arithmetic="exact")


@pytest.mark.parametrize("noise", [FAST, EXACT])
def test_noise_of_the_whole_has_the_scale_of_its_epsilon_and_no_other(noise: NoiseConfig) -> None:
    # Kolmogorov-Smirnov on 48 000 numbers at a fixed seed; false-alarm rate of the acceptance 1e-3.
    n = 4000
    privatizer = LocalGradientPrivacy(2.0, clip=0.5, submissions=5).build(
        GradientLayout(D), n, Streams(0, "scale", noise)
    )
    gradient = np.linspace(-1.0, 2.0, D)
    messages = GradientClient(privatizer.client_spec).send(privatizer.lease(n), np.tile(gradient, (n, 1)))
    x = (privatizer.accept(messages).gradients - clipped(gradient, 0.25, False)).ravel()
    scale = 0.5 * 5 / 2.0
    assert stats.kstest(x, stats.laplace(scale=scale).cdf).pvalue > 1e-3
    for factor in (2 / 3, 3 / 2):
        assert stats.kstest(x, stats.laplace(scale=scale * factor).cdf).pvalue < 1e-50


def test_bits_on_scores_are_reported_with_the_probability_of_their_epsilon_and_no_other() -> None:
    # 4.5 standard deviations (false-alarm rate 7e-6) for each kind of score; that of 2/3 or 3/2 of epsilon is further.
    n = 20_000
    settings = LocalGradientPrivacy(4.0, release_scores="private", score_epsilon=1.5, target_score=195)
    privatizer = settings.build(GradientLayout(2), n, Streams(0, "bits"))
    scores = np.tile([194.999, 195.0, math.nan, math.inf], n // 4)
    messages = GradientClient(privatizer.client_spec).send(privatizer.lease(n), np.zeros((n, 2)), scores)
    bits = privatizer.accept(messages).bits
    assert bits is not None
    for i, value in enumerate((0.0, 1.0, 0.0, 1.0)):
        told = np.mean(bits[i::4] == value)
        for epsilon, right in ((1.5, True), (1.0, False), (2.25, False)):
            p = 1 / (1 + math.exp(-epsilon))
            deviation = abs(told - p) / math.sqrt(p * (1 - p) / (n // 4))
            assert (deviation < 4.5) == right


@pytest.mark.parametrize("mechanism", ["clipped_laplace", "projected_random_sign", "privunit", "clipped_gaussian"])
@pytest.mark.parametrize("noise", [FAST, EXACT])
def test_all_that_leaves_an_agent_but_for_registered_noise_is_the_same(mechanism: str, noise: NoiseConfig) -> None:
    worlds = (
        (np.full((3, D), 1e-3), np.array([200.0, 200.0, 200.0])),
        (np.array([[math.nan] * D, [math.inf] * D, [1e300] * D]), np.array([math.nan, -math.inf, 3.0])),
    )

    def record(world: int) -> Sequence[Message]:
        delta = 1e-6 if mechanism == "clipped_gaussian" else 0.0
        settings = LocalGradientPrivacy(2.0, delta, mechanism, release_scores="private", score_epsilon=0.5)
        privatizer = settings.build(GradientLayout(D), 9, Streams(3, "channels", noise))
        messages = GradientClient(privatizer.client_spec).send(privatizer.lease(3), *worlds[world])
        estimates = privatizer.accept(messages).gradients
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


@pytest.mark.parametrize("mechanism", ["clipped_laplace", "projected_random_sign", "privunit"])
@pytest.mark.parametrize("noise", [FAST, NoiseConfig(arithmetic="exact", entropy="os")])
def test_gradients_score_bits_and_what_is_sent_in_clear_are_of_different_keys(
    mechanism: str, noise: NoiseConfig
) -> None:
    settings = LocalGradientPrivacy(2.0, mechanism=mechanism, release_scores="private", score_epsilon=0.5)
    channel = settings.build(GradientLayout(D), 9, Streams(3, "keys", noise)).channel
    keys = [channel.noise.noise.key, channel.score.noise.key]
    if mechanism == "projected_random_sign":
        keys.append(channel.noise.open_key)
    assert len({int(word) for key in keys for word in key[1:]}) == 4 * len(keys)


def test_the_gain_of_score_bits_is_accurate() -> None:
    assert LocalGradientPrivacy(1.0).build(GradientLayout(D), 9, Streams(3, "gain")).query.response is None
    for epsilon in (1e-17, 1e-9, 0.5):
        settings = LocalGradientPrivacy(1.0, release_scores="private", score_epsilon=epsilon)
        response = settings.build(GradientLayout(D), 9, Streams(3, "gain")).query.response
        assert response is not None
        gain = response.gain
        # To third order; at 0.5 to what the fifth leaves.
        assert gain == pytest.approx(epsilon / 2 - (epsilon / 2) ** 3 / 3, rel=1e-15 if epsilon < 0.1 else 1e-2)


def test_what_would_repeat_noise_cannot_be_copied() -> None:
    privatizer = LocalGradientPrivacy(2.0, mechanism="privunit").build(GradientLayout(D), 9, Streams(3, "copy"))
    sender = GradientClient(privatizer.client_spec)
    for thing in (privatizer, sender):
        for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(LedgerError, match="cannot be copied or pickled"):
                attempt(thing)
    for held in (privatizer.channel, privatizer.channel.noise, privatizer.channel.score):
        with pytest.raises(TypeError, match="noise cannot be copied or pickled"):
            pickle.dumps(held)
        assert "array" not in repr(held)
