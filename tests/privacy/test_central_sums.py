"""A trusted server's sums of gradients and of linear statistics: contents, noise, certificates, states, refusals."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dprl.privacy import (
    GradientLayout,
    GradientPrivacy,
    GradientPrivatizer,
    LedgerError,
    NoiseConfig,
    PrivateMessages,
    StatisticsLayout,
    StatisticsPrivacy,
    StatisticsPrivatizer,
    Streams,
)
from dprl.privacy.accounting.closed_forms import gaussian_mu
from dprl.privacy.counters import COUNTERS
from dprl.privacy.mechanisms.gaussian import Gaussian
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.queries.gradients import receive, submit
from dprl.privacy.queries.linear_statistics import add_statistics, correction_row, gram_row, send_statistics
from tests.privacy.sending import part_of, typed

D, B, N = 5, 4, 11
LAYOUT = StatisticsLayout(horizon=4, dimension=3, n_messages=2, n_agents=2, reward_dimension=2)
USERS = 9
NO_NOISE = 1e9
"""An epsilon with noise far below the tolerances of these tests."""


def gradients(n: int = N, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0.0, 0.002, (n, D))


def outputs(privatizer: GradientPrivatizer, given: np.ndarray, first: int = 1) -> np.ndarray:
    """The server's output after each message, float64[n, d]."""
    privatizer.charge(first, first + len(given) - 1)
    out = np.full(given.shape, np.nan)
    channel = privatizer.channel
    send, read = typed(submit, channel, given[0], first), typed(receive, channel, out[0])
    for row, gradient in enumerate(given):
        send(channel, gradient, first + row)
        read(channel, out[row])
    return out


def central(epsilon: float = 1.0, arithmetic: Any = "fast", n: int = N, window: int = B, **more: Any) -> Any:
    streams = Streams(3, "windows", NoiseConfig(arithmetic))
    return GradientPrivacy("jdp", epsilon, **more).build(GradientLayout(D, window), n, streams)


@pytest.mark.parametrize("arithmetic", ["fast", "exact"])
@pytest.mark.parametrize(
    "settings", [{}, {"mechanism": "clipped_gaussian", "delta": 1e-6}], ids=["laplace", "gaussian"]
)
def test_the_sum_of_a_window_comes_with_its_last_gradient_and_never_without_its_noise(
    arithmetic: Any, settings: dict[str, Any]
) -> None:
    given = gradients()
    norm: Any = "l2" if settings else "l1"
    raw = GradientPrivacy("none", clip_norm=norm).build(GradientLayout(D), N, Streams(0, "raw"))
    clipped = outputs(raw, given)
    exact = outputs(central(1e5 if settings else 1e3, arithmetic, **settings), given)
    sums = [clipped[start : start + B].sum(axis=0) for start in (0, B)]
    assert not exact[[0, 1, 2, 4, 5, 6, 8, 9, 10]].any()  # the last window has three gradients and is never released
    np.testing.assert_allclose(exact[[3, 7]], sums, atol=2e-4)
    noisy = outputs(central(1.0, arithmetic, **settings), given)
    assert (np.abs(noisy[[3, 7]] - sums) > 1e-5).all()
    assert not np.intersect1d(noisy[3] - sums[0], noisy[7] - sums[1]).size


@pytest.mark.parametrize("window", [1, 2, 3])
def test_no_two_windows_share_noise(window: int) -> None:
    """Without gradients a release is pure noise; two equal numbers of 53 bits have probability below 1e-8 here."""
    released = outputs(central(1.0, n=60, window=window), np.zeros((60, D)))[window - 1 :: window]
    assert np.unique(np.abs(released)).size == released.size == 60 // window * D


def test_the_noise_of_a_window_is_that_of_one_message() -> None:
    """Kolmogorov-Smirnov on 20,000 numbers at a fixed seed, false-alarm rate 1e-3."""
    n, window = 8000, 2
    privatizer = central(2.0, n=n, window=window, clip=0.5)
    released = outputs(privatizer, np.zeros((n, D)))[window - 1 :: window].ravel()
    assert stats.kstest(released, stats.laplace(scale=0.25).cdf).pvalue > 1e-3
    local = GradientPrivacy("ldp", 2.0, clip=0.5).build(GradientLayout(D), n, Streams(0, "x"))
    assert privatizer.query.law == local.query.law


@pytest.mark.parametrize("submissions", [1, 3])
def test_the_certificate_is_that_of_the_local_model_but_for_the_people(submissions: int) -> None:
    settings: dict[str, Any] = {"mechanism": "clipped_laplace", "delta": 1e-6, "submissions": submissions}
    written = central(1.0, n=40, **settings).planned_certificate("x").to_dict()
    streams = Streams(0, "x")
    local = (
        GradientPrivacy("ldp", 1.0, **settings).build(GradientLayout(D), 40, streams).planned_certificate("x").to_dict()
    )
    assert (written["trust_model"], written["verdict"]) == ("jdp", "holds")
    assert written["proved"] == local["proved"]
    assert (written["users"], written["submissions"]) == (local["users"], submissions)
    assert "the server is trusted" in written["observer"]
    assert any("hold gradients without noise" in channel for channel in written["excluded_channels"])
    assert any("raw scores" in channel for channel in written["excluded_channels"])


def test_nobody_is_in_a_window_twice() -> None:
    with pytest.raises(
        ValueError, match=r"messages of an update must be at most the number of agents with model jdp, 3, got 4; "
    ):
        central(n=9, submissions=3)
    central(n=12, submissions=3)
    central(n=2)


@pytest.mark.parametrize("arithmetic", ["fast", "exact"])
def test_clients_in_other_processes_give_the_sums_of_one_process(arithmetic: Any) -> None:
    """Equal bit for bit, however the messages are divided; the noise of a sum is numbered by its last submission."""
    given, remote = gradients(), central(1.0, arithmetic)
    expected = outputs(central(1.0, arithmetic), given)
    client = pickle.loads(pickle.dumps(remote.new_client))()
    lease = remote.lease(2 * B)
    parts = [client.send(part_of(lease, i, i + 2), given[i : i + 2]) for i in range(0, 2 * B, 2)]
    for window in (0, 1):
        found = remote.accept(*parts[2 * window : 2 * window + 2])
        np.testing.assert_array_equal(found, expected[B * window : B * (window + 1)])
    assert remote.certificate("x").to_dict()["users"] == 2 * B


def test_messages_for_a_trusted_server_are_clipped_by_the_client_and_again_by_the_server() -> None:
    remote = central(1e5, mechanism="clipped_gaussian", delta=1e-6, clip=2.0)
    sent = remote.new_client().send(remote.lease(B), np.full((B, D), 100.0))
    np.testing.assert_allclose(np.linalg.norm(sent.values, axis=1), 1.0)
    forged = PrivateMessages(1, 1000.0 * sent.values, sent.issuer)
    assert np.linalg.norm(remote.accept(forged)[-1]) == pytest.approx(B, rel=0.01)


def test_a_sum_of_clients_is_whole_and_has_each_message_and_each_user_once() -> None:
    remote = central(n=12, submissions=3)  # 4 users
    client = remote.new_client()
    sent = [client.send(remote.lease(1), gradients(1)) for _ in range(9)]
    with pytest.raises(LedgerError, match="a sum is of 4 messages, got 3"):
        remote.accept(*sent[:3])
    remote = central(n=12, submissions=3)
    client = remote.new_client()
    sent = [client.send(remote.lease(1), gradients(1)) for _ in range(9)]
    with pytest.raises(LedgerError, match="a user is in a sum once"):
        remote.accept(*sent[1:4], sent[5])
    remote.accept(*sent[:4])
    with pytest.raises(LedgerError, match="a submission is accepted once"):
        remote.accept(sent[5], sent[6], sent[7], sent[5])
    with pytest.raises(LedgerError, match="submission 3 was received already"):
        remote.accept(*sent[2:6])


# Linear statistics.


def records(seed: int = 0, n: int = USERS) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Features, targets and corrections of users, some of them beyond the clips."""
    rng = np.random.default_rng(seed)
    m, h, d = LAYOUT.n_messages, LAYOUT.horizon, LAYOUT.dimension
    return [
        (rng.normal(0, 1.5, (m, h, d)), rng.normal(1, 2, (m, h)), rng.normal(0, 0.8, (LAYOUT.n_agents, h, 2)))
        for _ in range(n)
    ]


def statistics(epsilon: float = 1.0, layout: StatisticsLayout = LAYOUT, **more: Any) -> StatisticsPrivatizer:
    return StatisticsPrivacy("jdp", epsilon, **more).build(layout, USERS, Streams(1, "statistics"))


class Read:
    """A learner's input from users 1, 2, ...: sums after each of them, and summed corrections."""

    def __init__(self, privatizer: StatisticsPrivatizer) -> None:
        m, h, d = LAYOUT.n_messages, LAYOUT.horizon, LAYOUT.dimension
        self.privatizer, self.matrices, self.vectors = privatizer, np.zeros((m, h, d, d)), np.zeros((m, h, d))
        self.corrections = np.zeros((LAYOUT.n_agents, h, LAYOUT.reward_dimension))

    def take(self, users: list[tuple[np.ndarray, np.ndarray, np.ndarray]], first: int = 1) -> Read:
        self.privatizer.charge(first, first + len(users) - 1)
        grown = np.zeros_like(self.corrections)
        for user, record in enumerate(users, first):
            send_statistics(self.privatizer.channel, *record, user)
            add_statistics(self.privatizer.channel, self.matrices, self.vectors, grown)
            self.corrections += grown
        return self

    def numbers(self) -> np.ndarray:
        return np.concatenate([self.matrices.ravel(), self.vectors.ravel(), self.corrections.ravel()])


NOISE: list[dict[str, Any]] = [
    {"counter": name, "mechanism": mechanism, "delta": 1e-6}
    for name, counter in COUNTERS.items()
    for mechanism, law in (("gram_gaussian", Gaussian), ("gram_laplace", Laplace))
    if counter.place in law.places
] + [{}, {"counter": "auto", "delta": 1e-6, "mechanism": "gram_gaussian"}, {"stage_scales": False}]


@pytest.mark.parametrize("settings", NOISE, ids=str)
def test_without_noise_the_sums_are_those_of_clipped_statistics(settings: dict[str, Any]) -> None:
    raw = StatisticsPrivacy("none", rewards="open", clipping="centered").build(LAYOUT, USERS, Streams(0, "raw"))
    users = records()
    assert max(np.linalg.norm(features, axis=2).max() for features, *_ in users) > 3.0  # some are cut
    # Short enough that neither norm clips them.
    users = [(*record, 0.3 * grown / np.abs(grown).sum(axis=2, keepdims=True)) for *record, grown in users]
    expected, found = Read(raw).take(users).numbers(), Read(statistics(NO_NOISE, **settings)).take(users).numbers()
    np.testing.assert_allclose(found, expected, atol=0.05)
    noisy = Read(statistics(1.0, **settings)).take(users).numbers()
    sent = expected != 0.0
    assert (np.abs(noisy - expected)[sent] > 0.1).mean() > 0.98


@pytest.mark.parametrize("settings", NOISE, ids=str)
def test_the_noise_of_the_sums_has_the_stated_deviation(settings: dict[str, Any]) -> None:
    """Of the noisiest sums, 1,500 diagonal entries a stage and 1,500 corrections a step: each bound has a false-alarm
    rate below 1e-4.
    """
    layout = StatisticsLayout(3, 500, 1, 1, 500)
    found = []
    for seed in range(3):
        privatizer = StatisticsPrivacy("jdp", 1.0, **settings).build(layout, USERS, Streams(seed, "deviation"))
        sums, corrections = (np.zeros((1, 3, 500, 500)), np.zeros((1, 3, 500))), np.zeros((3, 500))
        record, grown = (np.zeros((1, 3, 500)), np.zeros((1, 3)), np.zeros((1, 3, 500))), np.zeros((1, 3, 500))
        central: Any = privatizer.query
        profile = central.counter.profile()
        privatizer.charge(1, USERS)
        for user in range(1, int(np.argmax(profile)) + 2):
            send_statistics(privatizer.channel, *record, user)
            add_statistics(privatizer.channel, *sums, grown)
            corrections += grown[0]
        found.append(np.concatenate([np.einsum("hii->hi", sums[0][0])[:2], corrections]))
    measured = np.std(np.concatenate(found, axis=1), axis=1)
    of_corrections = central.reward_scale * math.sqrt(central.counter.node.variance) * profile.max()
    stated = [*privatizer.query.deviations[:2], *[of_corrections] * 3]
    np.testing.assert_allclose(measured, stated, rtol=0.12)


def test_the_certificate_of_gaussian_sums_by_hand() -> None:
    """mu^2 = levels * 4.5 n sum_h m_h^4 / (scale_h sigma)^2 for Gram matrices alone, by [CZ22]'s tree of 4 levels."""
    privatizer = statistics(2.0, delta=1e-6, counter="binary_tree", rewards="public")
    counter: Any = privatizer.query.counter
    levels, sigma = 4, counter.node.scale
    mu = math.sqrt(levels * 4.5 * 2 * sum((m * m / (m * m * sigma)) ** 2 for m in (3.0, 2.0, 1.0)))
    assert mu == pytest.approx(gaussian_mu(2.0, 1e-6), rel=1e-6)
    certificate = privatizer.planned_certificate("x")
    assert (certificate.verdict, certificate.trust_model) == ("holds", "jdp")
    assert certificate.proved_epsilon == pytest.approx(2.0, rel=1e-6)


@pytest.mark.parametrize("settings", NOISE, ids=str)
def test_each_certificate_holds_and_not_with_a_millionth_less(settings: dict[str, Any]) -> None:
    certificate = statistics(1.0, **settings).planned_certificate("x")
    assert certificate.verdict == "holds"
    assert 0.5 < certificate.proved_epsilon <= 1.0
    written = certificate.to_dict()
    assert [noise["release"] for noise in written["noise"]] == ["sums of statistics"]
    assert any("sums of corrections" in channel for channel in written["covered_channels"])


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_no_two_users_move_the_sums_further_than_the_row_says(norm: str) -> None:
    """Random pairs and the worst known pair, clipped by the device, in the counter's units."""
    mechanism = {"l1": "gram_laplace", "l2": "gram_gaussian"}[norm]
    query = statistics(1.0, mechanism=mechanism, delta=1e-6).query
    units, row = query.open(Streams(0, "x")).units, query.row
    sent: list[np.ndarray] = []
    for record in [*records(5, 300), *(worst(sign) for sign in (0, 1))]:
        channel = query.open(Streams(0, "x"))
        channel.cursor[0] = 1
        send_statistics(channel, *record, 1)
        sent.append(channel.message / units)
    given = np.array(sent)
    apart = given[:, None] - given[None]
    l1, l2, largest = np.abs(apart).sum(axis=2).max(), np.sqrt((apart**2).sum(axis=2)).max(), np.abs(apart).max()
    assert l1 <= row.l1
    assert l2 <= row.l2 * (1 + 1e-12)
    assert largest <= row.linf
    assert {"l1": l1 / row.l1, "l2": l2 / row.l2}[norm] > 0.65


def worst(world: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features at the cosine -1/2, values at their bound, opposite corrections."""
    m, h, d = LAYOUT.n_messages, LAYOUT.horizon, LAYOUT.dimension
    features, corrections = np.zeros((m, h, d)), np.zeros((LAYOUT.n_agents, h, LAYOUT.reward_dimension))
    features[..., :2] = 100.0 * np.array([[1.0, 0.0], [-0.5, math.sqrt(0.75)]][world])
    corrections[..., 0] = 100.0 if world else -100.0
    return features, np.full((m, h), 100.0), corrections


def test_rows_in_both_norms_are_those_of_their_parts() -> None:
    release = LAYOUT.release(clipped=True)
    for norm in ("l1", "l2"):
        gram, rewards = gram_row(release, (1.0,) * 4, norm), correction_row(LAYOUT, 1.0, 1.0, norm)
        both = gram.beside(rewards)
        assert both.l2 == pytest.approx(math.hypot(gram.l2, rewards.l2))
        assert (both.l1, both.cells) == (gram.l1 + rewards.l1, 54 + 16)
    share = StatisticsPrivacy("jdp", 1.0, reward_share=0.25).build(LAYOUT, USERS, Streams(0, "x")).query
    rewards = correction_row(LAYOUT, 1.0, share.reward_scale, "l1")
    assert rewards.l1 == pytest.approx(0.25 * share.row.l1)


def test_settings_that_do_not_fit_are_refused() -> None:
    for settings, message in (
        ({"mechanism": "gram_uniform"}, "mechanism must be one of gram_gaussian, gram_laplace, auto, got"),
        ({"rewards": "open"}, "rewards must be one of noisy, public, auto, got 'open'"),
        ({"mechanism": "gram_gaussian"}, "delta must be above 0 with gram_gaussian"),
        ({"rewards": "public", "reward_share": 0.2}, "reward_share must be 0.1 with rewards public, got 0.2"),
    ):
        with pytest.raises(ValueError, match=message):
            StatisticsPrivacy("jdp", 1.0, **settings)
    exact = Streams(0, "x", NoiseConfig("exact"))
    with pytest.raises(ValueError, match=r"^arithmetic must be fast for statistics, got exact; "):
        StatisticsPrivacy("jdp", 1.0).build(LAYOUT, USERS, exact)


@pytest.mark.parametrize("scale", [-1.0, 0.0, math.inf, math.nan])
def test_scales_that_are_no_sizes_of_noise_are_refused(scale: float) -> None:
    """Epsilon adds up changes over scales, so a negative scale would lower it."""
    query = statistics(1.0).query
    with pytest.raises(ValueError, match="scale must be a finite number above 0"):
        replace(query, scales=(1.0, scale, 1.0, 1.0))
    with pytest.raises(ValueError, match="scale must be a finite number above 0"):
        replace(query, reward_scale=scale or -1.0)
