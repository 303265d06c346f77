"""Privatizers of counts: their exchange, layouts, users without a release, bounds on weighted sums, and states."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dprl.privacy import CountFamilies, CountFamily, CountPrivacy, CountPrivatizer, LedgerError, Streams, UserRecord
from dprl.privacy.counters import COUNTERS
from dprl.privacy.queries.count_layout import RELEASED_FAMILIES
from dprl.privacy.queries.counts import add_message, release, send_and_aggregate
from tests.privacy.conftest import KINDS
from tests.privacy.sending import message_of, sent

# Privatizers: the contract for all trust models, the bounded sensitivity, and the sealed counts.

Families = Callable[..., CountFamilies]
Users = Callable[[CountPrivatizer, int], list[UserRecord]]
Maker = Callable[..., CountPrivatizer]
N_USERS = 21


def test_one_user_at_a_time_equals_the_compiled_exchange_bit_for_bit(
    kind: str, privatizer: CountPrivatizer, users_of: Users, privatizer_of: Maker
) -> None:
    compiled = privatizer_of(kind)
    for user, contribution in enumerate(users_of(privatizer, N_USERS), start=1):
        counts = sent(privatizer, contribution, user)
        compiled.charge(user, user)
        send_and_aggregate(compiled.channel, contribution.index, contribution.value, user)
        release(compiled.channel)
        assert np.array_equal(counts.values, compiled.channel.needed)
        assert counts.users == user


def test_noise_is_all_that_separates_private_counts_from_the_truth(
    privatizer: CountPrivatizer, users_of: Users, privatizer_of: Maker
) -> None:
    truth = privatizer_of("none")
    bounds = privatizer.precision(1e-9)
    for user, contribution in enumerate(users_of(privatizer, N_USERS), start=1):
        counts = sent(privatizer, contribution, user)
        exact = sent(truth, contribution, user)
        for family in privatizer.query.families.families:
            error = np.abs(privatizer.query.family(counts, family.name) - truth.query.family(exact, family.name)).max()
            assert error <= bounds[family.name] + 1e-9
            assert (error == 0) == (privatizer.trust_model == "none")


def test_local_reports_have_the_certified_scale_and_no_other(tabular_families: Families) -> None:
    # Kolmogorov-Smirnov at a fixed seed; false-alarm rate 1e-3.
    families = tabular_families(20, n_states=8, n_actions=3)
    privatizer = CountPrivacy("ldp", 2.0, families="separate").build(families, 2, Streams(0, "scale"))
    shape = (20, 3)
    noise = message_of(privatizer, UserRecord(np.zeros(shape, dtype=np.int64), np.zeros(shape)), 1)
    scale = 6 * 20 / 2.0
    assert stats.kstest(noise, stats.laplace(scale=scale).cdf).pvalue > 1e-3
    for factor in (2 / 3, 3 / 2):
        assert stats.kstest(noise, stats.laplace(scale=scale * factor).cdf).pvalue < 1e-20


def test_printed_precision_is_the_papers_formula(tabular_families: Families) -> None:
    n_states, n_actions, horizon, episodes, beta, epsilon = 3, 2, 5, 1000, 0.1, 0.7
    steps, log_k = horizon * episodes, np.log(episodes)
    cells = n_states * n_actions * steps
    for settings, growth in (
        (CountPrivacy("jdp", epsilon, calibration="printed", precision="printed"), log_k**3),
        (CountPrivacy("ldp", epsilon, calibration="printed", precision="printed"), episodes),
    ):
        bounds = settings.build(tabular_families(horizon), episodes - 1, Streams(0, "p")).precision(beta)
        e1 = 3 * horizon / epsilon * np.sqrt(8 * growth * np.log(6 * cells / beta))
        e2 = 3 * horizon / epsilon * np.sqrt(8 * growth * np.log(6 * n_states * cells / beta))
        assert bounds == pytest.approx({"visits": e1, "rewards": e1, "transitions": e2})


@pytest.mark.parametrize("settings", [CountPrivacy("jdp", 1.0), CountPrivacy("ldp", 1.0)])
def test_exact_precision_holds_in_runs_and_is_below_the_printed_one(
    settings: CountPrivacy, tabular_families: Families
) -> None:
    # 100 runs: failures may exceed beta by 4 standard deviations (one-sided 3e-5).
    beta, n_runs, users = 0.2, 100, 30
    families = tabular_families(2, n_states=2)
    nobody = UserRecord(np.zeros((2, 3), dtype=np.int64), np.zeros((2, 3)))
    failures = 0
    for run in range(n_runs):
        privatizer = settings.build(families, users, Streams(run, "precision"))
        bounds = privatizer.precision(beta)
        worst = dict.fromkeys(bounds, 0.0)
        for user in range(1, users + 1):
            counts = sent(privatizer, nobody, user)
            for name in bounds:
                worst[name] = max(worst[name], float(np.abs(privatizer.query.family(counts, name)).max()))
        failures += any(worst[name] > bounds[name] for name in bounds)
    assert failures / n_runs <= beta + 4 * np.sqrt(beta * (1 - beta) / n_runs)


# Sums of released cells equal direct counts, for every layout and family.

STEPS, STATES, PAIRS, USERS = 3, 4, 6, 12
TRANSITIONS = CountFamily("transitions", PAIRS * STATES)
VISITS = CountFamily("visits", PAIRS, marginal_of="transitions")
REWARDS = CountFamily("rewards", PAIRS, marginal_of="transitions", indicator=False)
WITH_REWARDS = CountFamilies(STEPS, (TRANSITIONS, VISITS, REWARDS))
WITHOUT = CountFamilies(STEPS, (TRANSITIONS, VISITS))
# Integer noise of this scale is 0 except with probability e^-200.
NOISELESS: list[Any] = [CountPrivacy(*asked, mechanism="discrete_laplace") for asked in (("jdp", 1.2e4), ("ldp", 3e3))]


def users(families: CountFamilies) -> list[UserRecord]:
    """Users whose trajectories are consistent, with rewards of 0 and 1."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(USERS):
        transitions = rng.integers(0, TRANSITIONS.width, STEPS)
        index = np.stack([transitions, transitions % PAIRS, transitions % PAIRS], axis=1)
        value = np.ones(index.shape)
        value[:, 2] = rng.integers(0, 2, STEPS)
        kept = slice(len(families.families))
        found.append(UserRecord(index[:, kept].copy(), value[:, kept].copy()))
    return found


def counted(families: CountFamilies, model: Any) -> np.ndarray:
    """The counts of all users, as a learner receives them."""
    privatizer = model.build(families, USERS, Streams(0, "layouts"))
    for user, contribution in enumerate(users(families), start=1):
        counts = sent(privatizer, contribution, user)
    return np.asarray(counts.values)


@pytest.mark.parametrize("families", [WITH_REWARDS, WITHOUT], ids=["with rewards", "without"])
@pytest.mark.parametrize("kind", ["separate", "one_hot"])
@pytest.mark.parametrize("model", NOISELESS, ids=lambda model: model.model)
def test_every_layout_gives_the_counts_themselves(model: Any, kind: str, families: CountFamilies) -> None:
    exact = counted(families, CountPrivacy("none"))
    rows = exact.reshape(STEPS, -1)
    transitions, visits = rows[:, : TRANSITIONS.width], rows[:, TRANSITIONS.width : TRANSITIONS.width + PAIRS]
    assert np.array_equal(transitions.reshape(STEPS, STATES, PAIRS).sum(axis=1), visits)
    assert len(np.unique(exact)) > 2
    assert np.array_equal(
        counted(families, CountPrivacy(model.model, model.epsilon, mechanism=model.mechanism, families=kind)), exact
    )


def test_noisy_visits_are_the_sum_of_noisy_transitions() -> None:
    rows = counted(WITHOUT, CountPrivacy("jdp", 1.0, families="one_hot")).reshape(STEPS, -1)
    transitions, visits = rows[:, : TRANSITIONS.width], rows[:, TRANSITIONS.width :]
    np.testing.assert_allclose(transitions.reshape(STEPS, STATES, PAIRS).sum(axis=1), visits, rtol=1e-12, atol=1e-9)


def test_bits_need_whole_cells() -> None:
    """Values sent unchanged could be fractions, whatever the family states; bits protect one cell per step."""
    with pytest.raises(ValueError, match=r"^mechanism must be additive .*; use families: one_hot"):
        CountPrivacy("ldp", 1.0, mechanism="sampled_direct_encoding", families="separate").build(
            WITHOUT, 5, Streams(0, "x")
        )
    CountPrivacy("ldp", 1.0, mechanism="sampled_direct_encoding", families="one_hot").build(WITHOUT, 5, Streams(0, "x"))


# Users added without a release: later releases, charges and states are the same.

READ = ({21}, {1, 4, 5, 11, 12, 16, 21}, {8, 16, 17}, set(range(2, 22, 3)))
LOCAL = {
    "separate": ("laplace", "discrete_laplace"),
    "one_hot": ("gaussian", "laplace", "sampled_optimized_unary_encoding", "sampled_direct_encoding"),
}
SETTINGS: dict[str, CountPrivacy] = {
    f"{counter}, {families}": CountPrivacy("jdp", 1.0, delta=1e-6, counter=counter, families=families)
    for counter in sorted(COUNTERS)
    for families in RELEASED_FAMILIES
} | {
    f"{mechanism}, {families}": CountPrivacy("ldp", 1.0, delta=1e-6, mechanism=mechanism, families=families)
    for families, mechanisms in LOCAL.items()
    for mechanism in mechanisms
}


def run(privatizer: CountPrivatizer, users: list[UserRecord], read: set[int], first: int = 1) -> dict[int, np.ndarray]:
    """Release after the users in `read`, add the others without a release; return the releases by user."""
    released = {}
    for user, contribution in enumerate(users[first - 1 :], start=first):
        if user in read:
            send_and_aggregate(privatizer.channel, contribution.index, contribution.value, user)
            release(privatizer.channel)
            released[user] = privatizer.channel.needed.copy()
        else:
            send_and_aggregate(privatizer.channel, contribution.index, contribution.value, user)
    return released


def charged(privatizer: CountPrivatizer) -> CountPrivatizer:
    privatizer.charge(1, N_USERS)
    return privatizer


@pytest.mark.parametrize("name", SETTINGS)
def test_later_releases_are_those_of_releases_after_each_user(name: str, users_of: Users, privatizer_of: Maker) -> None:
    families = privatizer_of("none").query.families

    def built() -> CountPrivatizer:
        return charged(SETTINGS[name].build(families, N_USERS, Streams(3, name)))

    users = users_of(built(), N_USERS)
    every = run(built(), users, set(range(1, N_USERS + 1)))
    for read in READ:
        some = run(built(), users, read)
        assert some.keys() == read
        assert all(np.array_equal(some[user], every[user]) for user in read)


def test_certificate_and_report_are_those_of_an_exchange(kind: str, users_of: Users, privatizer_of: Maker) -> None:
    released, unreleased = charged(privatizer_of(kind)), charged(privatizer_of(kind))
    for user, contribution in enumerate(users_of(released, N_USERS), start=1):
        send_and_aggregate(released.channel, contribution.index, contribution.value, user)
        release(released.channel)
        send_and_aggregate(unreleased.channel, contribution.index, contribution.value, user)
        assert np.array_equal(released.channel.message, unreleased.channel.message)
        assert np.array_equal(released.channel.totals, unreleased.channel.totals)
    assert unreleased.certificate("x").to_dict() == released.certificate("x").to_dict()


def test_what_a_learner_could_read_meanwhile_is_the_last_release(
    kind: str, users_of: Users, privatizer_of: Maker
) -> None:
    privatizer = charged(privatizer_of(kind))
    users = users_of(privatizer, 9)
    last = run(privatizer, users[:5], {5})[5]
    run(privatizer, users, set(), first=6)
    if privatizer.trust_model == "jdp":
        assert np.array_equal(privatizer.channel.needed, last)
    assert privatizer.release().users == 9


# A privatizer's bounds on weighted sums of its noise hold in all kinds of runs; and its refusals.

PRECISE_STATES = 3
SUMS = ("transitions", PRECISE_STATES, 4 * 4 * PAIRS, 21)
BETA = 0.2


def test_without_noise_nothing_is_off(tabular_families: Families) -> None:
    privatizer = CountPrivacy("none").build(tabular_families(4), 21, Streams(0, "none"))
    assert privatizer.query.weighted_precision(*SUMS, 0.1) == 0.0
    assert privatizer.query.weighted_precision("rewards", 1, 4 * PAIRS, 21, 0.1) == 0.0


@pytest.mark.parametrize("model", ["jdp", "ldp"])
def test_printed_precision_says_nothing_of_weighted_sums(model: str, tabular_families: Families) -> None:
    settings = CountPrivacy(model, 1.0, calibration="printed", precision="printed")
    privatizer = settings.build(tabular_families(4), 21, Streams(0, "printed"))
    with pytest.raises(ValueError, match=r"^precision must be exact here, got printed") as caught:
        privatizer.query.weighted_precision(*SUMS, 0.1)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["ldp"])
@pytest.mark.parametrize("beta", [0.0, 1.0, -0.1, 1.5, float("nan")])
def test_a_failure_probability_outside_0_1_is_refused(beta: float, privatizer: CountPrivatizer) -> None:
    with pytest.raises(ValueError, match=r"^beta must"):
        privatizer.query.weighted_precision(*SUMS, beta)


def worst_error(privatizer: CountPrivatizer, users: list[UserRecord], weights: np.ndarray) -> float:
    """The largest weighted sum of the noise of transitions over all users of a run, weights [sums, S]."""
    true, worst = np.zeros((privatizer.query.families.n_steps, PRECISE_STATES, PAIRS)), 0.0
    for user, contribution in enumerate(users, start=1):
        counts = sent(privatizer, contribution, user)
        for h, cell in enumerate(contribution.index[:, 0]):
            true[h].reshape(-1)[cell] += 1.0
        noise = privatizer.query.family(counts, "transitions").reshape(true.shape) - true
        worst = max(worst, float(np.abs(np.einsum("wt,htj->whj", weights, noise)).max()))
    return worst


def test_weighted_sums_of_the_noise_that_runs_stay_within_their_bound(
    kind: str,
    privatizer_of: Callable[..., CountPrivatizer],
    users_of: Callable[[CountPrivatizer, int], list[UserRecord]],
) -> None:
    # If failures had probability BETA, more than this would have one of 1e-4 at most. And the bound is not idle: at 0.4
    # of it more than half of all runs fail.
    n_runs, u = 30, np.array([0.0, 0.35, 1.0])
    weights = np.array([u, u * u, (1 - u) ** 2, np.ones(3)])
    users = users_of(privatizer_of(kind), 21)
    bound = privatizer_of(kind).query.weighted_precision(*SUMS, BETA)
    worst = np.array([worst_error(privatizer_of(kind, seed), users, weights) for seed in range(n_runs)])
    assert np.sum(worst > bound + 1e-9) <= stats.binom.isf(1e-4, n_runs, BETA)
    if kind != "none":
        assert np.sum(worst > 0.4 * bound) > n_runs / 2


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [50.0, 100.0, 200.0, 1e3, 1e5])
def test_bits_that_are_almost_never_wrong_have_a_bound_too(epsilon: float, tabular_families: Families) -> None:
    # The exact bound's grid would need gigabytes here.
    settings = CountPrivacy("ldp", epsilon, families="one_hot", mechanism="sampled_optimized_unary_encoding")
    bounds = settings.build(tabular_families(4), 300, Streams(0, "rare")).precision(0.1)
    assert all(0.0 < bound < 300.0 for bound in bounds.values())


# A run of a privatizer continues only from its own complete and unchanged state, and cannot be copied.


def test_state_of_another_shape_or_after_the_start_is_refused(privatizer: CountPrivatizer, users_of: Users) -> None:
    state = privatizer.state_dict()
    with pytest.raises(ValueError, match="'totals' is missing or of another shape"):
        privatizer.load_state_dict(state | {"totals": np.zeros((77, 1))})
    cursor = np.array([9, 3, 3, 3, 3])
    with pytest.raises(ValueError, match="is not the one that was written"):
        privatizer.load_state_dict(state | {"cursor": cursor})
    for key in {"noisy", "totals", "rows"} & set(state):
        with pytest.raises(ValueError, match="is not the one that was written"):
            privatizer.load_state_dict(state | {key: state[key] + 1.0})
    with pytest.raises(ValueError, match="another seed or other settings"):
        privatizer.load_state_dict(state | {"fixed": state["fixed"] + np.uint8(1)})
    message_of(privatizer, users_of(privatizer, 1)[0], 1)
    with pytest.raises(LedgerError, match="a message is under way"):
        privatizer.state_dict()
    add_message(privatizer.channel)
    with pytest.raises(LedgerError, match="submissions up to 1 are charged here already"):
        privatizer.load_state_dict(state)


def test_the_state_of_another_kind_of_noise_or_another_seed_is_refused(
    kind: str, privatizer_of: Maker, users_of: Users
) -> None:
    kinds = list(KINDS)
    following = kinds[(kinds.index(kind) + 1) % len(kinds)]
    for theirs in (privatizer_of(kind, 1), privatizer_of(following)):
        sent(theirs, users_of(theirs, 1)[0], 1)
        with pytest.raises(ValueError, match=r"of another shape|other settings"):
            privatizer_of(kind).load_state_dict(theirs.state_dict())
