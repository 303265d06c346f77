"""Statistics of trials, against closed forms and scipy, with infinite values; rates and orders on made-up runs."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dprl.papers.compare import NONE, Section, bootstrap, markdown, mean, median, ratio, share, verdict
from dprl.papers.cz22 import DECADE, NOT_VISIBLE, POINTS, orders, rates, read, tables
from dprl.papers.th23 import permutation_p
from dprl.platform.results.cell_folder import CellResults

INF = math.inf


def test_the_interval_of_a_mean_is_that_of_scipys_bootstrap() -> None:
    values = np.random.default_rng(1).exponential(2.0, 400)
    expected = stats.bootstrap((values,), np.mean, method="percentile", random_state=0).confidence_interval
    found, width = bootstrap(mean, values), expected.high - expected.low
    assert found.value == values.mean()
    assert (found.lower, found.upper) == pytest.approx((expected.low, expected.high), abs=0.1 * width)


def test_medians_and_ends_of_intervals_may_be_infinite_and_are_never_nan() -> None:
    values = np.array([10.0] * 6 + [INF] * 5)
    assert bootstrap(median, values)[:3] == (10.0, 10.0, INF)
    assert bootstrap(median, values, size=20)[1:3] == (10.0, INF)
    assert bootstrap(median, np.array([1.0, 2.0, INF, INF])).value == INF


def test_two_trials_have_no_interval() -> None:
    for found in (bootstrap(median, np.array([1.0, 3.0])), share(np.ones(2)), bootstrap(ratio, np.ones(2), np.ones(2))):
        assert math.isfinite(found.value)
        assert math.isnan(found.lower)


@pytest.mark.parametrize(("hits", "of"), [(0, 20), (20, 20), (17, 20), (69, 100)])
def test_shares_have_the_interval_of_clopper_and_pearson(hits: int, of: int) -> None:
    found = share((np.arange(of) < hits).astype(float))
    low = stats.beta.ppf(0.025, hits, of - hits + 1) if hits else 0.0
    high = stats.beta.ppf(0.975, hits + 1, of - hits) if hits < of else 1.0
    assert found[:3] == pytest.approx((hits / of, low, high))


def test_the_range_of_20_trials_of_a_share_is_that_of_the_binomial_distribution() -> None:
    _, low, high, _ = bootstrap(mean, (np.arange(100) < 80).astype(float), size=20)
    # Quantiles of Binomial(20, 0.8) / 20: 12 and 19; a resampled end may be one off.
    assert abs(20 * low - stats.binom.ppf(0.025, 20, 0.8)) <= 1.0
    assert abs(20 * high - stats.binom.ppf(0.975, 20, 0.8)) <= 1.0


def test_samples_are_resampled_independently() -> None:
    values = np.random.default_rng(4).normal(10.0, 1.0, 100)
    found = bootstrap(lambda one, other: mean(one) - mean(other), values + 1.0, values)
    assert 0.0 < found.lower < found.value < found.upper
    assert found.upper - found.lower == pytest.approx(2 * 1.96 * math.sqrt(2.0 / 100) * values.std(), rel=0.2)


def test_a_quotient_of_means_has_a_range_and_none_without_a_reference() -> None:
    generator = np.random.default_rng(5)
    values, reference = generator.uniform(0.4, 0.8, 100), generator.uniform(0.9, 1.0, 100)
    found, few = (bootstrap(ratio, values, reference, size=size) for size in (None, 20))
    assert found.value == few.value == pytest.approx(values.mean() / reference.mean())
    assert few.lower < found.lower < found.value < found.upper < few.upper
    assert all(math.isnan(number) for number in bootstrap(ratio, values, np.zeros(100))[:3])


def test_permutations_find_a_difference_and_their_p_values_are_uniform_without_one() -> None:
    generator = np.random.default_rng(6)
    one, other = generator.normal(0.4, 1.0, 20), generator.normal(0.0, 1.0, 20)
    assert permutation_p(one, other) == pytest.approx(
        stats.ttest_ind(one, other, alternative="greater").pvalue, abs=0.02
    )
    p_values = [permutation_p(*generator.exponential(1.0, (2, 12))) for _ in range(100)]
    # Kolmogorov and Smirnov: wrong in one of 10,000 cases.
    assert stats.kstest(p_values, "uniform").pvalue > 1e-4
    assert permutation_p(np.full(5, 0.1), np.full(5, 0.1)) == 1.0


def test_verdicts() -> None:
    low, high = np.linspace(1.0, 2.0, 30), np.linspace(3.0, 4.0, 30)
    pairs = ((high, low), (low, low), (low, high))
    assert [verdict(*pair, mean, 20) for pair in pairs] == ["holds", "open", "fails"]
    never, once = np.full(30, INF), np.full(30, 100.0)
    pairs = ((never, once), (never, never), (once, never))
    assert [verdict(*pair, median, 20) for pair in pairs] == ["holds", "open", "fails"]
    for failures, word in ((0, "holds"), (4, "open"), (40, "fails")):
        assert verdict((np.arange(100) >= failures).astype(float), None, mean, 20) == word


def test_a_table_has_texts_for_people_and_numbers_for_programs() -> None:
    section = Section("one", pd.DataFrame([{"a|b": share(np.ones(20)), "c": INF, "d": None, "e": 20238.5}]))
    assert markdown(section.texts).splitlines()[-1] == "| 1.00 [0.832, 1.00] | \u221e | \u2014 | 2.024e+04 |"
    (row,) = section.records()
    assert (row["a|b"]["value"], row["c"], row["d"]) == (1.0, INF, None)


# ---- rates ----


def made_up(algorithm: str, model: str, epsilon: float, curve: np.ndarray, visible: bool = True) -> pd.DataFrame:
    """Three seeds of regret near `curve` over the last decade of 10^8 episodes."""
    points = {name: value * np.array([0.99, 1.0, 1.01]) for name, value in zip(POINTS, curve, strict=True)}
    about = {"algorithm": algorithm, "model": model, "epsilon": epsilon, "K": 10**8, "visible": visible}
    return pd.DataFrame({**about, **points, "claimed": epsilon, "proved": 2 * epsilon, "verdict": "fails"})


def cells(visible: bool = True) -> pd.DataFrame:
    """Regret K^0.4 without privacy and 1000 K^0.2 / epsilon more with it; `slow` has twice as much."""
    k = 10.0 ** (8 + DECADE)
    found = [made_up("fast", "none", INF, k**0.4)]
    for epsilon in (1.0, 4.0):
        cost = 1e5 * k**0.2 / epsilon
        found.append(made_up("fast", "jdp", epsilon, k**0.4 + cost, visible))
        found.append(made_up("slow", "jdp", epsilon, 2 * (k**0.4 + cost), visible))
    return pd.concat(found, ignore_index=True)


def test_exponents_are_those_of_the_runs() -> None:
    in_k, in_epsilon = (section.data for section in rates(cells()))
    fast, slow = (in_k[in_k["algorithm"] == name] for name in ("fast", "slow"))
    assert [one.value for one in fast["cost: ours"]] == pytest.approx([0.2, 0.2], abs=1e-3)
    assert [one.value for one in fast["R: ours"]] == pytest.approx([0.2, 0.2], abs=2e-3)
    assert list(slow["cost: ours"]) == [NONE, NONE]
    assert [one.value for one in in_epsilon["ours"]] == pytest.approx([1.0, 1.0], abs=5e-3)
    assert list(in_epsilon["of"]) == ["cost", "R"]


def test_curves_that_have_not_bent_have_no_exponent_and_no_order() -> None:
    runs = cells(visible=False)
    in_k, in_epsilon = (section.data for section in rates(runs))
    assert set(in_k["R: ours"]) == set(in_k["cost: ours"]) == set(in_epsilon["ours"]) == {NOT_VISIBLE}
    assert set(orders(runs, [("jdp", "slow", "fast")]).data["verdict"]) == {NOT_VISIBLE}


def test_orders_and_guarantees() -> None:
    found = orders(cells(), [("jdp", "slow", "fast"), ("jdp", "fast", "slow"), ("ldp", "slow", "fast")]).data
    assert list(found["verdict"]) == ["shows", "shows", "reversed", "reversed"]
    assert found["ratio, ours"][0].value == pytest.approx(2.0)
    assert tables(cells(), [])[-1].data[["claimed", "proved"]].to_numpy().tolist() == [[1.0, 2.0], [4.0, 8.0]]


@pytest.mark.parametrize(("exponent", "visible"), [(0.5, True), (1.0, False)])
def test_curves_are_read_at_points_of_the_last_decade(exponent: float, visible: bool) -> None:
    ends = np.unique(np.geomspace(1, 10_000, 80).astype(int))
    regret = 2.0 * ends**exponent
    lengths, blocks = np.diff(ends, prepend=0), np.diff(regret, prepend=0.0)
    frame = pd.DataFrame({"seed": 0, "episode": ends, "regret": regret, "regret_per_episode": blocks / lengths})
    found = read(CellResults(frame, {}, 1.0, 0.0))
    assert (found["K"], found["visible"]) == (10_000, visible)
    assert [found[name][0] for name in POINTS] == pytest.approx(2.0 * (10_000.0 * 10.0**DECADE) ** exponent, rel=1e-3)
