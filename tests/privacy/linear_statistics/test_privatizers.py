"""Messages with a linear model's statistics: clipped, with noise of the right scale, sent once, in order, charged."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from dprl.privacy import NoiseConfig, StatisticsLayout, StatisticsPrivacy, StatisticsPrivatizer, Streams
from dprl.privacy.mechanisms.gram import GramBoundedLaplace
from dprl.privacy.queries.linear_statistics import add_statistics, send_statistics

FAST, OS = NoiseConfig(), NoiseConfig(entropy="os")
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
        targets = np.clip(targets, 0.0, BOUNDS)
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
            [
                (matrices - outer)[:, :, h, range(D), range(D)].ravel(),
                (vectors - moments)[:, :, h].ravel(),
            ]
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
