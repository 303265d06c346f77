"""Linear statistics: clipped and noisy messages, releases on a schedule, certificates, and refused settings."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dprl.privacy import LedgerError, NoiseConfig, StatisticsLayout, StatisticsPrivacy, StatisticsPrivatizer, Streams
from dprl.privacy.base import TrustModel
from dprl.privacy.certificate import Certificate
from dprl.privacy.mechanisms.gram import GramBoundedLaplace, printed_gaussian_sigma
from dprl.privacy.queries.linear_statistics import (
    StatisticsQuery,
    add_statistics,
    aggregate_statistics,
    send_statistics,
)
from dprl.privacy.schedule import ReleaseSchedule
from dprl.privacy.threat_models import THREAT_MODELS, of_statistics

# Messages with a linear model's statistics: clipped, with noise of the right scale, sent once, in order, charged.

FAST = NoiseConfig()
M, H, D, N_AGENTS, P = 2, 4, 3, 2, 2
LAYOUT = StatisticsLayout(H, D, M, N_AGENTS, P)
N = 40
BOUNDS = np.arange(H - 1.0, -1.0, -1.0)
ROWS, COLUMNS = np.triu_indices(D, 1)
CONFIGS: dict[str, tuple[StatisticsPrivacy, NoiseConfig]] = {
    "none": (StatisticsPrivacy("none"), FAST),
    "none, clipped": (StatisticsPrivacy("none", rewards="public", clipping="device"), FAST),
    "laplace": (StatisticsPrivacy("ldp", 1.0), FAST),
    "laplace, public": (StatisticsPrivacy("ldp", 1.0, rewards="public"), FAST),
    "laplace, printed": (StatisticsPrivacy("ldp", 1.0, calibration="printed"), FAST),
    "gaussian": (StatisticsPrivacy("ldp", 1.0, 1e-5, "gram_gaussian"), FAST),
    "gaussian, same scale": (StatisticsPrivacy("ldp", 1.0, 1e-5, "gram_gaussian", stage_scales=False), FAST),
    "bounded laplace, printed": (
        StatisticsPrivacy(
            "ldp", *(1.0, 0.0, "gram_bounded_laplace", "printed"), clipping="device", rewards="public", bound_ratio=12.0
        ),
        FAST,
    ),
    "uniform, printed": (
        StatisticsPrivacy("ldp", 1.0, 1e-5, "gram_uniform", "printed", clipping="device", rewards="public"),
        FAST,
    ),
}
NOISY = sorted(set(CONFIGS) - {"none", "none, clipped"})
Sums = tuple[np.ndarray, np.ndarray, np.ndarray]


def built(name: str, seed: int = 0, n_users: int = N, noise: NoiseConfig | None = None) -> StatisticsPrivatizer:
    config, own = CONFIGS[name]
    return config.build(LAYOUT, n_users, Streams(seed, "statistics", noise or own))


def inputs(seed: int = 1, size: float = 1.0) -> Sums:
    rng = np.random.default_rng(seed)
    return size * rng.normal(size=(M, H, D)), size * rng.random((M, H)), size * rng.normal(size=(N_AGENTS, H, P))


def zeros() -> Sums:
    return np.zeros((M, H, D, D)), np.zeros((M, H, D)), np.zeros((N_AGENTS, H, P))


def sent(privatizer: StatisticsPrivatizer, user: int, given: Sums) -> Sums:
    sums = zeros()
    send_statistics(privatizer.channel, *given, user)
    add_statistics(privatizer.channel, *sums)
    return sums


def sent_by_all(privatizer: StatisticsPrivatizer, given: Sums, first: int, last: int) -> Sums:
    each = [sent(privatizer, user, given) for user in range(first, last + 1)]
    return tuple(np.array(parts) for parts in zip(*each, strict=True))  # type: ignore[return-value]


def expected(given: Sums, clips: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the matrices and vectors without noise, in plain NumPy."""
    features, targets, _ = (np.where(np.isfinite(array), array, 0.0) for array in given)
    if clips:
        norms = np.linalg.norm(features, axis=2)
        features = features * np.minimum(1.0, BOUNDS / np.maximum(norms, 1e-300))[:, :, None]
        targets = np.clip(targets, -BOUNDS, BOUNDS)
    features[:, -1] = 0.0
    return features[..., :, None] * features[..., None, :], features * targets[..., None]


@pytest.fixture(params=CONFIGS)
def name(request: pytest.FixtureRequest) -> str:
    """Return the name of each kind of privatizer."""
    return str(request.param)


@pytest.mark.parametrize("kind", ["none", "none, clipped"])
@pytest.mark.parametrize("size", [0.3, 30.0])
def test_without_noise_the_statistics_arrive_as_they_are(kind: str, size: float) -> None:
    privatizer, given = built(kind), inputs(size=size)
    given[1][0, 1] = -2.0
    privatizer.charge(1, 2)
    matrices, vectors, corrections = sent(privatizer, 1, given)
    outer, moments = expected(given, privatizer.query.clipped)
    np.testing.assert_allclose(matrices, np.triu(outer), rtol=1e-12)
    np.testing.assert_allclose(vectors, moments, rtol=1e-12)
    assert np.array_equal(corrections, given[2] if privatizer.query.rewards == "open" else np.zeros_like(given[2]))
    # The second message is added, but not its corrections.
    send_statistics(privatizer.channel, *given, 2)
    add_statistics(privatizer.channel, matrices, vectors, corrections)
    np.testing.assert_allclose(matrices, 2 * np.triu(outer), rtol=1e-12)
    assert np.array_equal(corrections, given[2] if privatizer.query.rewards == "open" else np.zeros_like(given[2]))


def law_of(kind: str, privatizer: StatisticsPrivatizer, deviation: float) -> Callable[[float], stats.rv_continuous]:
    """Return the law of noise of that standard deviation, times a factor."""
    if "gaussian" in kind:
        return lambda factor: stats.norm(scale=deviation * factor)
    if "uniform" in kind:
        bound = deviation * math.sqrt(3.0)
        return lambda factor: stats.uniform(-bound * factor, 2 * bound * factor)
    scale = deviation / math.sqrt(2.0)
    mechanism = privatizer.query.law
    if isinstance(mechanism, GramBoundedLaplace):
        scale = mechanism.scales[0] * deviation / privatizer.query.deviations[0]
    return lambda factor: stats.laplace(scale=scale * factor)


@pytest.mark.parametrize("kind", NOISY)
def test_noise_has_the_scale_of_its_stage_and_no_other(kind: str) -> None:
    # Kolmogorov-Smirnov on 3600 numbers or more at a fixed seed; false-alarm rate of each acceptance 1e-6. The bounded
    # law is cut so far out that it is the Laplace law to a few parts in a million.
    n = 600
    privatizer, given = built(kind, n_users=n), inputs(size=2.0)
    privatizer.charge(1, n)
    matrices, vectors, _ = sent_by_all(privatizer, given, 1, n)
    outer, moments = expected(given, privatizer.query.clipped)
    assert not matrices[:, :, -1].any()
    assert not vectors[:, :, -1].any()
    assert not np.tril(matrices, -1).any()
    for h in range(H - 1):
        ends = np.concatenate(
            [(matrices - outer)[:, :, h, range(D), range(D)].ravel(), (vectors - moments)[:, :, h].ravel()]
        )
        off_diagonal = (matrices - outer)[:, :, h, ROWS, COLUMNS].ravel()
        less = math.sqrt(0.5) if "gaussian" in kind else 1.0
        for part, factor in ((ends, 1.0), (off_diagonal, less)):
            law = law_of(kind, privatizer, float(privatizer.query.deviations[h]) * factor)
            assert stats.kstest(part, law(1.0).cdf).pvalue > 1e-6
            for wrong in (2 / 3, 3 / 2):
                assert stats.kstest(part, law(wrong).cdf).pvalue < 1e-8


@pytest.mark.parametrize("kind", ["laplace", "gaussian", "gaussian, same scale"])
def test_corrections_are_clipped_one_by_one_and_have_the_noise_of_their_share(kind: str) -> None:
    # Kolmogorov-Smirnov on 4800 numbers at a fixed seed; false-alarm rate of the acceptance 1e-6.
    n = 300
    privatizer, given = built(kind, n_users=n), inputs()
    given[2][0, 0] = (30.0, -40.0)
    given[2][0, 1] = (math.nan, 0.5)
    given[2][1, 0] = (1e200, -1e200)
    privatizer.charge(1, n)
    found = sent_by_all(privatizer, given, 1, n)[2]
    order = 2 if "gaussian" in kind else 1
    clean = np.where(np.isfinite(given[2]), given[2], 0.0)
    clean[1, 0] = (1.0, -1.0)
    clean /= np.maximum(1.0, np.linalg.norm(clean, order, axis=2, keepdims=True))
    noise = privatizer.query.reward_law
    assert noise is not None
    x = (found - clean).ravel()
    law = stats.norm if order == 2 else stats.laplace
    assert stats.kstest(x, law(scale=noise.scale).cdf).pvalue > 1e-6
    for wrong in (2 / 3, 3 / 2):
        assert stats.kstest(x, law(scale=noise.scale * wrong).cdf).pvalue < 1e-8


def test_messages_differ_by_what_was_clipped_and_by_nothing_else(name: str) -> None:
    given = inputs(size=2.0)
    given[0][0, 0, 1], given[0][1, 1], given[1][0, 1], given[1][1, 2] = math.nan, 1e300, math.inf, -math.inf
    features, targets, corrections = (np.where(np.abs(array) < math.inf, array, 0.0) for array in given)
    # No message depends on the last stage.
    features[:, -1], targets[:, -1] = 7.0, 2.0
    one, two = built(name), built(name)
    one.charge(1, N)
    two.charge(1, N)
    shown, cleaned = sent(one, 1, given), sent(two, 1, (features, targets, corrections))
    for part, other in zip(shown, cleaned, strict=True):
        assert np.array_equal(part, other)
    if one.query.clipped:
        assert np.isfinite(shown[0]).all()


def test_arrays_of_another_shape_are_refused_before_anything_is_sent() -> None:
    privatizer, (features, targets, corrections) = built("laplace"), inputs()
    privatizer.charge(1, N)
    for wrong in (
        (features[:1], targets, corrections),
        (features, targets[:, :1].copy(), corrections),
        (features[:, :, :1].copy(), targets, corrections),
        (features, targets, corrections[:, :, :1].copy()),
        (features, targets, corrections[:1]),
    ):
        with pytest.raises(ValueError, match="must be of the layout's shape"):
            sent(privatizer, 1, wrong)
    sent(privatizer, 1, (features, targets, corrections))
    send_statistics(privatizer.channel, features, targets, corrections, 2)
    matrices, vectors, out = zeros()
    with pytest.raises(ValueError, match="matrices must be of the features' shape"):
        add_statistics(privatizer.channel, np.ascontiguousarray(matrices[..., :1]), vectors, out)


# Releases of statistics on a schedule: a counter of Gram matrices and corrections for the releases that plans read.

USERS, GROWTH = 40, 0.5
TIMES = [1, 2, 4, 7, 11, 17, 26, 40]
"""Plans before episodes 2, 3, 5, 8, 12, 18, 27 and 41."""
NO_NOISE = 1e9
GAUSSIAN: dict[str, Any] = {"delta": 1e-6, "mechanism": "gram_gaussian"}
NOISE: list[dict[str, Any]] = [
    {},
    {"counter": "kary_tree"},
    GAUSSIAN,
    {**GAUSSIAN, "counter": "auto"},
    {**GAUSSIAN, "counter": "buffered_toeplitz"},
]
Record = tuple[np.ndarray, np.ndarray, np.ndarray]


def records() -> list[Record]:
    """Features, targets and corrections of all users, none of which the device clips."""
    rng, (m, h, d) = (np.random.default_rng(0), (LAYOUT.n_messages, LAYOUT.horizon, LAYOUT.dimension))
    return [
        (
            rng.uniform(-0.5, 0.5, (m, h, d)),
            rng.uniform(0, 1, (m, h)),
            rng.uniform(-0.2, 0.2, (LAYOUT.n_agents, h, LAYOUT.reward_dimension)),
        )
        for _ in range(USERS)
    ]


def scheduled(epsilon: float = 1.0, growth: float = GROWTH, users: int = USERS, **more: Any) -> StatisticsPrivatizer:
    return StatisticsPrivacy("jdp", epsilon, **more).build(LAYOUT, users, Streams(1, "schedule"), growth=growth)


class Read:
    """Sums that a learner reads, and the corrections of every user or release."""

    def __init__(self) -> None:
        m, h, d = LAYOUT.n_messages, LAYOUT.horizon, LAYOUT.dimension
        self.sums = np.zeros((m, h, d, d)), np.zeros((m, h, d))
        self.corrections = np.full((LAYOUT.n_agents, h, LAYOUT.reward_dimension), np.nan)

    def take(self, privatizer: StatisticsPrivatizer, given: list[Record], first: int = 1) -> dict[int, np.ndarray]:
        """Send the records of users first, first + 1, ...; return all numbers read, by number of users."""
        privatizer.charge(first, first + len(given) - 1)
        found = {}
        for user, record in enumerate(given, start=first):
            send_statistics(privatizer.channel, *record, user)
            add = add_statistics if user in TIMES else aggregate_statistics
            add(privatizer.channel, *self.sums, self.corrections)
            found[user] = np.concatenate([array.ravel() for array in (*self.sums, self.corrections)])
        return found


def read(privatizer: StatisticsPrivatizer) -> dict[int, np.ndarray]:
    return Read().take(privatizer, records())


@pytest.mark.parametrize("settings", NOISE, ids=str)
@pytest.mark.parametrize("growth", [0.01, 0.1, 1.0])
def test_noise_and_shifts_are_those_of_a_counter_for_so_many_users(settings: dict[str, Any], growth: float) -> None:
    """A user is in one block, so n releases need the noise of n users with a release after each."""
    users = 8499
    made = scheduled(users=users, growth=growth, **settings)
    number = ReleaseSchedule(growth, users).number
    every = scheduled(users=number, growth=0.0, **settings)
    assert number < users / 10
    assert every.query.schedule is None
    assert made.query.counter == every.query.counter
    assert made.query.noise_ratio == every.query.noise_ratio
    np.testing.assert_array_equal(made.query.deviations, every.query.deviations)
    certificate, other = (built.planned_certificate("x").to_dict() for built in (made, every))
    assert certificate["proved"] == other["proved"]
    assert (certificate["verdict"], certificate["releases"], other["releases"]) == ("holds", number, None)
    assert (certificate["users"], other["users"]) == (users, number)


def test_without_noise_releases_are_the_sums_and_corrections_those_since_the_last() -> None:
    exact = StatisticsPrivacy("none", rewards="open", clipping="centered").build(
        LAYOUT, USERS, Streams(0, "raw"), growth=GROWTH
    )
    raw, found = read(exact), read(scheduled(NO_NOISE))
    n_sums = found[1].size - LAYOUT.n_corrections
    for start, stop in zip([0, *TIMES[:-1]], TIMES, strict=True):
        np.testing.assert_allclose(found[stop][:n_sums], raw[stop][:n_sums], atol=1e-3)
        expected = sum(raw[user][n_sums:] for user in range(start + 1, stop + 1))
        np.testing.assert_allclose(found[stop][n_sums:], expected, atol=1e-3)


@pytest.mark.parametrize("settings", NOISE, ids=str)
def test_between_two_releases_nothing_of_a_user_is_read(settings: dict[str, Any]) -> None:
    found = read(scheduled(**settings))
    n_sums = found[1].size - LAYOUT.n_corrections
    for user in set(found) - set(TIMES):
        last = max(time for time in TIMES if time < user)
        np.testing.assert_array_equal(found[user][:n_sums], found[last][:n_sums])
        assert not found[user][n_sums:].any()


@pytest.mark.parametrize("settings", NOISE, ids=str)
def test_a_release_that_is_not_on_the_schedule_is_refused(settings: dict[str, Any]) -> None:
    privatizer, reader = scheduled(**settings), Read()
    given = records()
    before = reader.take(privatizer, given[:4])[4]
    privatizer.charge(5, 5)
    send_statistics(privatizer.channel, *given[4], 5)
    with pytest.raises(LedgerError, match="the schedule has no release after these users"):
        add_statistics(privatizer.channel, *reader.sums, reader.corrections)
    n_sums = before.size - LAYOUT.n_corrections
    np.testing.assert_array_equal(np.concatenate([array.ravel() for array in reader.sums]), before[:n_sums])


def test_the_release_after_the_last_one_is_refused() -> None:
    """Of 45 users 40 are in eight blocks; user 45 would be in a ninth."""
    privatizer, reader = scheduled(users=45), Read()
    assert privatizer.query.schedule.times.tolist() == TIMES  # type: ignore[union-attr]
    reader.take(privatizer, records())
    privatizer.charge(41, 45)
    for user in range(41, 46):
        send_statistics(privatizer.channel, *records()[0], user)
        if user < 45:
            aggregate_statistics(privatizer.channel, *reader.sums, reader.corrections)
    with pytest.raises(LedgerError, match="the schedule has no release after these users"):
        add_statistics(privatizer.channel, *reader.sums, reader.corrections)
    assert privatizer.certificate("x").users == 45


@pytest.mark.parametrize("other", [{"growth": 0.4}, {"releases": "every_user"}, {"growth": 0.0}], ids=str)
def test_a_state_of_another_schedule_is_refused(other: dict[str, Any]) -> None:
    privatizer = scheduled()
    Read().take(privatizer, records()[:4])
    with pytest.raises(ValueError, match="state"):
        scheduled(**other).load_state_dict(privatizer.state_dict())


def test_every_user_is_released_where_that_is_asked_for() -> None:
    query = scheduled(releases="every_user").query
    assert (query.schedule, query.counter.n_items) == (None, USERS)  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="releases must be one of scheduled, every_user"):
        StatisticsPrivacy("jdp", 1.0, releases="never")  # type: ignore[arg-type]


def test_a_schedule_that_is_not_the_counters_is_refused() -> None:
    query: StatisticsQuery = scheduled().query
    with pytest.raises(LedgerError, match=r"an item for each of 40 releases, got 8; build it for the schedule"):
        replace(query, schedule=ReleaseSchedule(0.0, USERS))
    with pytest.raises(LedgerError, match="only a trusted server releases sums on a schedule"):
        replace(StatisticsPrivacy("ldp", 1.0).build(LAYOUT, USERS, Streams(0, "x")).query, schedule=query.schedule)
    with pytest.raises(ValueError, match="n_users must be at most 40, got 41"):
        query.check_run(USERS + 1, 1)


# Certificates of printed and certified noise on a linear model's statistics, and refused settings.

SMALL, LARGE = StatisticsLayout(5, 4, 2, 2, 3), StatisticsLayout(5, 50, 10, 10, 3)
EXACT = NoiseConfig(arithmetic="exact")
DELTA = 1e-5


def stated(layout: StatisticsLayout = SMALL, noise: NoiseConfig | None = None, **settings: Any) -> StatisticsPrivatizer:
    config = StatisticsPrivacy("ldp", 1.0, **settings)
    return config.build(layout, 7, Streams(0, "certificates", noise or NoiseConfig()))


def certified(layout: StatisticsLayout = SMALL, noise: NoiseConfig | None = None, **settings: Any) -> Certificate:
    found = stated(layout, noise, **settings).planned_certificate("x")
    written = found.to_dict()
    assert json.loads(json.dumps(written, allow_nan=False)) == written
    assert found.users == 7
    return found


def printed(mechanism: str, layout: StatisticsLayout = SMALL, **settings: Any) -> Certificate:
    defaults: dict[str, Any] = {"clipping": "device", "rewards": "public", "calibration": "printed"}
    return certified(layout, mechanism=mechanism, **(defaults | settings))


def test_what_the_printed_gaussian_scale_proves() -> None:
    found = printed("gram_gaussian", delta=DELTA)
    assert found.epsilon_at_delta[DELTA] == pytest.approx(0.0629, abs=5e-5)
    assert (found.verdict, found.design.source, found.tightness) == ("holds", "[TH23] Theorem 1", None)
    assert getattr(found.design.claimed, "epsilon", None) == 1.0


def test_what_the_printed_laplace_scale_proves() -> None:
    small, large = printed("gram_laplace"), printed("gram_laplace", LARGE)
    assert small.proved_epsilon == pytest.approx(0.3932, abs=1e-4)
    assert (small.verdict, small.design.source) == ("holds", "[TH23] Theorem 3")
    assert large.proved_epsilon == pytest.approx(3.9607, abs=1e-4)
    # The audit attains a loss of 3.84, so the claim fails by itself, not only by the upper bound.
    assert (large.verdict, large.tightness) == ("holds_approximately", "upper")
    # Theorem 3 claims no delta, even if one was requested.
    assert printed("gram_laplace", delta=DELTA).to_dict()["claimed"]["delta"] == 0.0


def test_what_the_printed_uniform_bound_proves() -> None:
    found = printed("gram_uniform", delta=DELTA)
    # The audit attains 0.0946; 0.125 bounds the sum of the masses, and their product is less.
    assert found.delta_at_requested_epsilon == pytest.approx(0.1007, abs=1e-4)
    assert found.proved_epsilon == found.proved_epsilon == math.inf
    assert (found.verdict, found.factor) == ("fails", math.inf)
    assert "[TH23] Theorem 5, which claims (0, delta)" in found.design.source


@pytest.mark.parametrize(("ratio", "least"), [(1.0, 0.102), (3.0, 0.0096), (5.0, 0.0013)])
def test_what_the_printed_bounded_laplace_scale_proves(ratio: float, least: float) -> None:
    found = printed("gram_bounded_laplace", bound_ratio=ratio)
    assert (found.verdict, found.pure_epsilon, found.design.source) == ("fails", math.inf, "[TH23] Theorem 7")
    delta = found.delta_at_requested_epsilon
    assert delta is not None
    assert least * 0.99 < delta < least * 1.7


@pytest.mark.parametrize("mechanism", ["gram_gaussian", "gram_laplace", "gram_uniform", "gram_bounded_laplace"])
@pytest.mark.parametrize("noise_scale", [1.0, 1e6])
def test_without_clips_no_noise_proves_anything_and_the_certificate_says_why(
    mechanism: str, noise_scale: float
) -> None:
    found = printed(mechanism, delta=DELTA, clipping="none", noise_scale=noise_scale)
    assert (found.verdict, found.pure_epsilon, found.factor) == ("fails", math.inf, math.inf)
    assert found.epsilon_at_delta[DELTA] == math.inf
    assert found.delta_at_requested_epsilon == 1.0
    assert "not cut from below" in found.method
    assert any("(D7)" in channel for channel in found.design.threat_model.excluded)


def test_open_rewards_prove_nothing_and_the_certificate_says_why() -> None:
    found = printed("gram_laplace", rewards="open")
    assert (found.verdict, found.pure_epsilon, found.epsilon_at_delta[DELTA]) == ("unbounded", math.inf, math.inf)
    assert any("(D6)" in channel for channel in found.design.threat_model.excluded)
    assert [release.channel for release in found.releases] == ["statistics", "reward corrections"]
    as_printed = certified(calibration="printed")
    assert as_printed.verdict == "unbounded"
    assert as_printed.design.choice == "clipping: none, rewards: open; what the paper has"
    public = printed("gram_laplace")
    assert any("assumed to be public" in channel for channel in public.design.threat_model.excluded)


@pytest.mark.parametrize(
    ("dimension", "settings", "attainable"),
    [
        (4, {"mechanism": "gram_gaussian", "delta": DELTA, "clipping": "device"}, True),
        (4, {"mechanism": "gram_gaussian", "delta": DELTA}, False),
        (3, {"mechanism": "gram_gaussian", "delta": DELTA, "clipping": "device"}, False),
        (4, {}, False),
        (3, {"calibration": "printed", "clipping": "none", "rewards": "public"}, True),
    ],
)
def test_a_loss_is_called_exact_only_where_features_attain_it(
    dimension: int, settings: dict[str, Any], attainable: bool
) -> None:
    """Features with three entries have too few directions for the worst pair."""
    found = certified(StatisticsLayout(5, dimension, 2, 2, 3), **settings).releases
    assert [release.attainable for release in found] == [attainable, False][: len(found)]


@pytest.mark.parametrize("model", ["jdp", "ldp"])
@pytest.mark.parametrize("rewards", ["public", "noisy", "open"])
@pytest.mark.parametrize("clipped", [True, False])
def test_without_clips_or_with_open_rewards_nothing_is_covered(model: TrustModel, rewards: str, clipped: bool) -> None:
    found = of_statistics(model, rewards, clipped)
    assert (found.covered == ()) == (not clipped or rewards == "open")
    attained_by = THREAT_MODELS["statistics", model].attained_by
    if not clipped:
        attained_by = "users with ever longer features"
    if rewards == "open":
        attained_by = "any two different corrections"
    assert found.attained_by == attained_by
    assert any("(D7)" in channel for channel in found.excluded) == (not clipped)
    assert any("(D6)" in channel for channel in found.excluded) == (rewards == "open")


def test_nothing_is_claimed_without_noise() -> None:
    for config in (StatisticsPrivacy("none"), StatisticsPrivacy("none", rewards="public", clipping="device")):
        found = config.build(SMALL, 7, Streams(0, "x")).planned_certificate("x")
        assert (found.trust_model, found.verdict, found.pure_epsilon) == ("none", "unbounded", math.inf)


@pytest.mark.parametrize("layout", [SMALL, LARGE, StatisticsLayout(5, 4, 1, 2, 3)])
@pytest.mark.parametrize("stage_scales", [False, True])
def test_certified_noise_proves_what_was_asked_and_hardly_more(layout: StatisticsLayout, stage_scales: bool) -> None:
    for mechanism, delta in (("gram_gaussian", DELTA), ("gram_laplace", 0.0)):
        found = certified(layout, mechanism=mechanism, delta=delta, stage_scales=stage_scales, rewards="public")
        proved = found.proved_epsilon
        assert 0.99 < proved <= 1.0
        assert found.verdict == "holds"
        assert found.to_dict()["noise"][0]["arithmetic"] == "float64-idealised"


@pytest.mark.parametrize(
    ("mechanism", "delta", "share"),
    [
        ("gram_gaussian", DELTA, 0.1),
        ("gram_gaussian", DELTA, 0.7),
        ("gram_laplace", 0.0, 0.1),
        ("gram_laplace", 0.0, 0.7),
        ("gram_laplace", DELTA, 0.5),
    ],
)
def test_noisy_rewards_share_the_budget(mechanism: str, delta: float, share: float) -> None:
    privatizer = stated(mechanism=mechanism, delta=delta, reward_share=share)
    found = privatizer.planned_certificate("x")
    assert found.verdict == "holds"
    assert 0.98 < found.proved_epsilon <= 1.0 or delta * (mechanism == "gram_laplace") > 0
    statistics, rewards = found.releases
    assert (statistics.cells, rewards.cells) == (2 * 4 * 14, 2 * 5 * 3)
    alone = stated(mechanism=mechanism, delta=delta, rewards="public")
    more = alone.query.deviations[:4] / privatizer.query.deviations[:4]
    if mechanism == "gram_gaussian":
        assert more == pytest.approx(np.full(4, math.sqrt(1 - share)), rel=3e-3)
        mu = statistics.curve().delta(0.0), rewards.curve().delta(0.0)
        assert (mu[0] > mu[1]) == (share < 0.5)
    elif delta == 0.0:
        assert more == pytest.approx(np.full(4, 1 - share), rel=1e-2)
        assert rewards.curve().pure_epsilon == pytest.approx(share, rel=1e-4)


@pytest.mark.parametrize("kind", ["ldp", "jdp"])
def test_noise_is_compared_with_the_printed_scale_at_the_stages_with_data(kind: Any) -> None:
    query = (
        StatisticsPrivacy(kind, 1.0, DELTA, mechanism="gram_gaussian", rewards="public")
        .build(SMALL, 7, Streams(0, "x"))
        .query
    )
    expected = query.deviations[:4].mean() / printed_gaussian_sigma(5, 1.0, DELTA)
    assert query.noise_ratio == pytest.approx(expected)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"clipping": "none"}, "^clipping must be auto or device or centered with .* calibration, got 'none'"),
        ({"rewards": "open"}, "^rewards must be auto or noisy or public with the certified calibration, got 'open'"),
        ({"calibration": "printed", "rewards": "noisy"}, "^rewards must be auto or public or open with the printed"),
        ({"mechanism": "gram_gaussian"}, "^delta must be above 0 with certified gram_gaussian, got 0"),
        ({"mechanism": "gram_bounded_laplace"}, "^mechanism must be gram_gaussian or gram_laplace with the certified"),
        ({"mechanism": "gram_uniform", "calibration": "printed"}, "^delta must be above 0 with printed gram_uniform"),
        ({"mechanism": "gram_uniform", "delta": DELTA}, "^mechanism must be gram_gaussian or gram_laplace with the"),
        ({"noise_scale": 0.5}, "^noise_scale must be 1 .*with the certified calibration, got 0.5"),
        ({"bound_ratio": 2.0}, "^bound_ratio must be 1 with certified gram_laplace, got 2.0"),
        ({"reward_share": 1.0}, r"^reward_share must lie in \(0, 1\), got 1.0"),
        ({"reward_share": 0.0}, r"^reward_share must lie in \(0, 1\), got 0.0"),
        ({"reward_share": 0.2, "rewards": "public"}, "^reward_share must be 0.1 with rewards public, got 0.2"),
        ({"reward_clip": 2.0, "calibration": "printed"}, "^reward_clip must be 1.0 with rewards open, got 2.0"),
        ({"stage_scales": False, "calibration": "printed"}, "^stage_scales must be True with the printed"),
    ],
)
def test_settings_that_cannot_be_are_refused_in_one_line(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        StatisticsPrivacy("ldp", 1.0, **settings)
    assert "\n" not in str(error.value)
    assert ";" in str(error.value)


def test_settings_that_do_not_fit_the_arithmetic_or_the_layout_are_refused() -> None:
    refused_exact: list[dict[str, Any]] = [{}, {"calibration": "printed"}]
    for settings in refused_exact:
        with pytest.raises(ValueError, match=r"^arithmetic must be fast for statistics, got exact"):
            stated(noise=EXACT, **settings)
    with pytest.raises(ValueError, match=r"^horizon must be at least 2, got 1"):
        StatisticsLayout(1, 4, 2, 2, 3)
    with pytest.raises(ValueError, match="1 or n_agents messages"):
        StatisticsLayout(5, 4, 3, 2, 3)
    for config in (StatisticsPrivacy("none"), StatisticsPrivacy("ldp", 1.0)):
        with pytest.raises(ValueError, match=r"^n_submissions must be at least 1, got 0"):
            config.build(SMALL, 0, Streams(0, "x"))
    with pytest.raises(ValueError, match=r"^n_users must be at most 80421421917329, got"):
        StatisticsPrivacy("ldp", 1.0).build(SMALL, 2**50, Streams(0, "x"))
    refused: list[dict[str, Any]] = [{"rewards": "noisy"}, {"clipping": "magic"}]
    for settings in refused:
        with pytest.raises(ValueError, match=f"^{next(iter(settings))} must be one of"):
            StatisticsPrivacy("none", **settings)


def test_noise_that_does_not_fit_what_is_sent_is_refused() -> None:
    noisy = stated().query
    changes: list[tuple[dict[str, Any], str]] = [
        ({"rewards": "open"}, "rewards are noisy where there is noise"),
        ({"reward_law": None}, "rewards are noisy where there is noise"),
        ({"layout": replace(SMALL, dimension=3)}, "release must be the layout's"),
        ({"layout": replace(SMALL, reward_dimension=4)}, "for all corrections together"),
        ({"reward_clip": 2.0}, "for all corrections together"),
    ]
    for changed, message in changes:
        with pytest.raises(LedgerError, match=message):
            replace(noisy, **changed)
