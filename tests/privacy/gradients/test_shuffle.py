"""Gradients in the shuffle model: sums without order, full updates only, certificates of what ran, and refusals."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dprl.privacy import (
    ChargeJournal,
    GradientLayout,
    GradientPrivatizer,
    GradientQuery,
    LedgerError,
    LocalGradientPrivacy,
    NoiseConfig,
    Privatizer,
    ShuffleGradientPrivacy,
    Streams,
    receive,
    submit,
)
from dprl.privacy.accounting.shuffling import ShuffledLoss, local_epsilon
from dprl.privacy.ledger import ReleaseEvent
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.mechanisms.shuffled import ShuffledReports
from dprl.privacy.mechanisms.vectors import RawVector
from dprl.privacy.queries.gradients import estimate_all
from dprl.privacy.threat_models import NOISY_SIDES

D, B, N = 6, 40, 100
LAWS = ["clipped_laplace", "projected_random_sign", "privunit"]
EACH_LAW = pytest.mark.parametrize("mechanism", LAWS)
GRADIENTS = np.random.default_rng(0).normal(0.0, 0.01, (N, D))


def built(
    mechanism: str = LAWS[0], noise: NoiseConfig | None = None, window: int = B, **more: Any
) -> GradientPrivatizer:
    settings = ShuffleGradientPrivacy(**{"epsilon": 1.0, "delta": 1e-6, "mechanism": mechanism, **more})
    return settings.build(GradientLayout(D, window), N, Streams(0, "shuffle", noise or NoiseConfig()))


def messages(privatizer: GradientPrivatizer) -> np.ndarray:
    """Send all gradients and return the messages, before the server receives any."""
    privatizer.charge(1, N)
    found = np.empty((N, privatizer.query.message_length))
    for row, gradient in enumerate(GRADIENTS):
        submit(privatizer.channel, gradient, row + 1)
        found[row] = privatizer.channel.message
    return found


def read(privatizer: GradientPrivatizer, sent: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Let the server receive messages; return its new estimate after each, float64[k, d]."""
    out = np.full((len(sent), D), np.nan) if out is None else out
    for row, message in enumerate(sent):
        privatizer.channel.cursor[3] = min(privatizer.channel.cursor[3], privatizer.channel.cursor[1] - 1)
        privatizer.channel.message[:] = message
        assert np.isnan(receive(privatizer.channel, out[row]))
    return out


@EACH_LAW
@pytest.mark.parametrize("arithmetic", ["fast", "exact"])
def test_the_server_learns_sums_of_full_updates_that_tell_no_order(mechanism: str, arithmetic: Any) -> None:
    noise = NoiseConfig(arithmetic)
    privatizer = built(mechanism, noise)
    sent = messages(privatizer)
    found = read(privatizer, sent)
    estimates = np.empty((N, D))
    estimate_all(estimates, sent, privatizer.channel.noise)
    sums = [estimates[:B].sum(axis=0), estimates[B : 2 * B].sum(axis=0)]
    assert np.flatnonzero(found.any(axis=1)).tolist() == [B - 1, 2 * B - 1]  # the last 20 are never released
    np.testing.assert_allclose(found[[B - 1, 2 * B - 1]], sums, rtol=1e-9, atol=1e-9 * np.abs(estimates).max())
    rng, others = np.random.default_rng(1), []
    for _ in range(20):
        order = np.concatenate([rng.permutation(B), B + rng.permutation(B)])
        shuffled, again = built(mechanism, noise), sent[order]
        messages(shuffled)
        assert read(shuffled, again)[[B - 1, 2 * B - 1]].tobytes() == found[[B - 1, 2 * B - 1]].tobytes()
        others.append(np.add.reduce(estimates[order[:B]]).tobytes())
    if (mechanism, arithmetic) != ("clipped_laplace", "exact"):  # integer sums do not depend on the order either
        assert len(set(others)) > 1  # float64 sums reveal the order; therefore gradients are added in integer units


def test_an_outlier_does_not_overflow_the_sum() -> None:
    privatizer = built()
    sent = messages(privatizer)
    sent[:B] = np.where(np.arange(D) % 2, 1e300, -np.inf)
    found = read(privatizer, sent)[B - 1]
    assert np.isfinite(found).all()
    assert (np.sign(found) == np.where(np.arange(D) % 2, 1.0, -1.0)).all()


@EACH_LAW
@pytest.mark.parametrize("submissions", [1, 2])
@pytest.mark.parametrize("arithmetic", ["fast", "exact"])
def test_messages_have_the_largest_epsilon_0_for_all_updates_of_an_agent(
    mechanism: str, submissions: int, arithmetic: Any
) -> None:
    privatizer = built(mechanism, NoiseConfig(arithmetic), submissions=submissions)
    each = privatizer.query.law.curve().pure_epsilon
    wanted = local_epsilon(1.0, 1e-6, B, submissions)
    assert 0.999 * wanted < each <= wanted
    assert ShuffledLoss(each, B, submissions).delta(1.0) <= 1e-6 < ShuffledLoss(1.01 * each, B, submissions).delta(1.0)
    certificate = privatizer.planned_certificate("x")
    assert (certificate.verdict, certificate.submissions) == ("holds", submissions)
    assert certificate.pure_epsilon == submissions * each > 1.0
    assert 0.99 < certificate.proof.epsilon_at_claimed_delta <= 1.0
    assert certificate.proof.tightness == "upper"
    told = certificate.to_dict()
    assert told["noise"][0]["mechanism"] == f"shuffled_{mechanism}"
    assert told["noise"][0]["parameters"]["users"] == B
    assert "in a random order" in told["observer"]
    assert any("local guarantee only" in channel for channel in told["excluded_channels"])


def test_larger_updates_need_less_noise_and_never_less_than_local_ones() -> None:
    noises = [built(window=window).query.law.noise_norm for window in (2, 10, 50, 100)]
    local = LocalGradientPrivacy(1.0).build(GradientLayout(D), N, Streams(0, "x")).query.law.noise_norm
    assert all(more > less for more, less in pairwise([local * (1.0 + 1e-6), *noises]))


@pytest.mark.parametrize("cut", [1, B - 1, B, B + 7])
def test_a_run_continues_in_the_middle_of_an_update(cut: int) -> None:
    whole, first, second = built(), built(), built()
    expected = read(whole, messages(whole))
    out = np.full((N, D), np.nan)
    first.charge(1, cut)
    for number in range(1, N + 1):
        if number == cut + 1:
            second.load_state_dict(first.state_dict())
            second.charge(cut + 1, N)
        made = first if number <= cut else second
        submit(made.channel, GRADIENTS[number - 1], number)
        receive(made.channel, out[number - 1])
    np.testing.assert_array_equal(out, expected)
    other = built(window=B - 1)
    with pytest.raises(ValueError, match="state"):
        other.load_state_dict(first.state_dict())


def test_a_journal_never_makes_a_smaller_update(tmp_path: Path) -> None:
    """Messages lost in a crash must not count as part of the shuffled block."""
    settings, layout = ShuffleGradientPrivacy(1.0, 1e-6), GradientLayout(D, B)
    noise = NoiseConfig("exact", "os")
    first = settings.build(layout, N, Streams(0, "x", noise), ChargeJournal(tmp_path / "j"))
    first.charge(1, B - 1)
    identity = first._journal.identity  # type: ignore[union-attr]
    first._journal.close()  # type: ignore[union-attr]
    again = settings.build(layout, N, Streams(0, "x", noise), ChargeJournal(tmp_path / "j", identity=identity))
    again.charge(B, N)
    out, released = np.zeros(D), []
    for number in range(B, N + 1):
        submit(again.channel, GRADIENTS[number - 1], number)
        receive(again.channel, out)
        released.append(bool(out.any()))
    assert np.flatnonzero(released).tolist() == [B - 1]


MESSAGES = "messages of an update must be at"


@pytest.mark.parametrize(
    ("settings", "window", "message"),
    [
        ({}, 1, f"{MESSAGES} least 2 with model shuffle, got 1; they are shuffled"),
        ({}, N + 1, f"{MESSAGES} most the number of agents with model shuffle, 100, got 101; no agent"),
        ({"submissions": 3}, B, f"{MESSAGES} most the number of agents with model shuffle, 34, got 40"),
        ({"delta": 0.0}, B, "delta must be above 0 with model shuffle, got 0.0; add delta: 1e-6"),
        ({"mechanism": "clipped_gaussian"}, B, "mechanism must be one of clipped_laplace, projected_random_sign, priv"),
        ({"mechanism": "privunit", "clip": 1.0}, B, "clip must be left out with privunit"),
        ({"scaling": "unbiased"}, B, "scaling must be paper with clipped_laplace"),
        ({"release_scores": "private"}, B, "release_scores must be one of simulator, none, got 'private'"),
        ({"submissions": 0}, B, "submissions must be a whole number"),
    ],
)
def test_settings_without_a_guarantee_are_refused(settings: dict[str, Any], window: int, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        built(window=window, **settings)
    assert "\n" not in str(caught.value)


def test_only_shuffled_messages_run_under_the_model_and_only_in_one_process() -> None:
    privatizer = built()
    local = LocalGradientPrivacy(1.0).build(GradientLayout(D), N, Streams(0, "x"))
    with pytest.raises(LedgerError, match="gradients with model: shuffle come from the compiled loop"):
        privatizer.lease(3)
    for query, request in ((privatizer.query, local.request), (local.query, privatizer.request)):
        with pytest.raises(LedgerError, match="reports must be shuffled with model shuffle only"):
            Privatizer(query, request, N, Streams(0, "x"))
    with pytest.raises(LedgerError, match="window must be at most n_users, 39, got 40"):
        Privatizer(privatizer.query, privatizer.request, 39, Streams(0, "x"), 2)
    assert privatizer.query.noisy_sides == NOISY_SIDES["shuffle"]


@pytest.mark.parametrize("window", [0, 1, 2**17 + 1])
def test_a_query_of_single_messages_is_not_shuffled(window: int) -> None:
    with pytest.raises(LedgerError, match="a shuffler takes 2 to 131072 messages with noise and without bits"):
        replace(built().query, window=window)


def test_messages_without_noise_with_bits_or_without_a_pure_law_are_not_shuffled() -> None:
    settings = LocalGradientPrivacy(1.0, release_scores="private", score_epsilon=0.5)
    bits = settings.build(GradientLayout(D), N, Streams(0, "x")).query
    raw = GradientQuery(RawVector(D, "l1", 1.0))
    with pytest.raises(LedgerError, match="a bit on the score needs a gradient with noise"):
        replace(raw, response=bits.response)
    for query in (bits, raw):
        with pytest.raises(LedgerError, match="a shuffler takes"):
            replace(query, window=B, shuffled=True)
    gaussian = LocalGradientPrivacy(1.0, 1e-6, "clipped_gaussian").build(GradientLayout(D), N, Streams(0, "x")).query
    with pytest.raises(LedgerError, match="shuffled reports must have a pure epsilon, got clipped_gaussian"):
        replace(gaussian, window=B, shuffled=True).events("seeded")


def test_a_ledger_refuses_shuffled_reports_of_a_law_that_it_does_not_know() -> None:
    class Own(Laplace):
        """A law that is not registered."""

    report: Any = Own(1.0)
    with pytest.raises(LedgerError, match="the ledger cannot account for a release by"):
        ReleaseEvent.of_message("gradient", ShuffledReports(report, 10), False, 1, "seeded")
    with pytest.raises(LedgerError, match="a release has a sensitivity unless its mechanism bounds it itself"):
        ReleaseEvent.of_message("gradient", ShuffledReports(Laplace(1.0), 10), False, 1, "seeded")
