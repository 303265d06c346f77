"""When counts are released: on a schedule, pooled over the steps of an episode, and shuffled in blocks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprl.algorithms.bernstein_vi import BernsteinVIConfig
from dprl.algorithms.tabular.simulator import count_families
from dprl.envs import Garnet, GridWorld, RandomMDP, RiverSwim
from dprl.privacy import (
    CountFamilies,
    CountFamily,
    CountPrivacy,
    CountPrivatizer,
    LedgerError,
    NoiseConfig,
    PooledFamilies,
    Privatizer,
    Streams,
    UserRecord,
)
from dprl.privacy.accounting.amplification import ShuffledLoss, local_epsilon
from dprl.privacy.audits.distinguishing_attack import measure
from dprl.privacy.audits.findings import Claim, proof_of
from dprl.privacy.audits.privatizer_probes import central_prefixes, local_reports, sent_row
from dprl.privacy.counters import COUNTERS, ExactCounter
from dprl.privacy.counters.error import UnaryCell, _log_pooled_moment
from dprl.privacy.journal import ChargeJournal
from dprl.privacy.queries.count_layout import CountEncoding
from dprl.privacy.queries.counts import CountQuery, release, send_and_aggregate
from dprl.privacy.schedule import ReleaseSchedule
from tests.privacy.by_hand import design_of
from tests.privacy.sending import sent

# Releases on a schedule: the counter is built for exactly the releases that plans read.

Users = Callable[[CountPrivatizer, int], list[UserRecord]]
Maker = Callable[..., CountPrivatizer]
K = 1_000_000
N_USERS = 40
GROWTH = 0.5
TIMES = [1, 2, 4, 7, 11, 17, 26, 40]
"""Plans before episodes 2, 3, 5, 8, 12, 18, 27 and 41."""


@pytest.mark.parametrize(("growth", "number", "last"), [(0.01, 982, 993_257), (0.1, 125, 927_660), (1.0, 19, 524_287)])
def test_the_number_of_releases_and_the_last_one(growth: float, number: int, last: int) -> None:
    schedule = ReleaseSchedule(growth, K - 1)
    assert (schedule.number, schedule.times[-1]) == (number, last)
    assert [schedule.releases_until(users) for users in (0, 1, last - 1, last, K)] == [1, 1, number - 1, number, number]


def test_a_run_without_a_second_plan_has_one_release_at_its_end() -> None:
    assert ReleaseSchedule(1e6, 99).times.tolist() == [99]


@pytest.mark.parametrize(
    ("growth", "delta", "counter", "scale", "bound"),
    [
        (0.01, 0.0, "kary_tree", 120.0, 11266),
        (0.1, 0.0, "kary_tree", 80.0, 6427),
        (1.0, 0.0, "kary_tree", 40.0, 3390),
        (0.01, 1e-6, "buffered_toeplitz", 26.7192, 1479),
        (0.1, 1e-6, "buffered_toeplitz", 26.7192, 1078),
        (1.0, 1e-6, "buffered_toeplitz", 26.7192, 752),
    ],
)
def test_noise_and_error_bounds_are_those_of_so_many_releases(
    growth: float, delta: float, counter: str, scale: float, bound: float
) -> None:
    """The vectors of RiverSwim S = 6, H = 20, epsilon 1: E over 12 cells, at beta = 0.1/960 of each of 960 sums."""
    config = BernsteinVIConfig(replan_growth=growth)
    privacy = CountPrivacy("jdp", 1.0, delta, families="one_hot", counter="auto")
    privatizer = config.privatizer(RiverSwim(n_states=6, horizon=20).build(), privacy, K, Streams(0, "vectors"))
    counter_used = privatizer.query.counter
    assert (counter_used.name, counter_used.n_items) == (counter, ReleaseSchedule(growth, K - 1).number)
    assert counter_used.node is not None
    assert counter_used.node.scale == pytest.approx(scale, rel=1e-5)
    found = privatizer.query.weighted_precision("transitions", 6, 1, K, 0.1 / 960)
    assert found == pytest.approx(bound, rel=2e-3)
    certificate = privatizer.planned_certificate("x").to_dict()
    assert certificate["releases"] == counter_used.n_items
    assert certificate["verdict"] == "holds"


@pytest.fixture(params=[*COUNTERS, "whole numbers", "ldp"])
def built(request: pytest.FixtureRequest, privatizer_of: Maker) -> Callable[[], CountPrivatizer]:
    """A privatizer for N_USERS users and the releases in TIMES; local reports have no schedule."""
    name, families = request.param, privatizer_of("none").query.families
    privacy: CountPrivacy | CountPrivacy = CountPrivacy("ldp", 1.0)
    if name == "whole numbers":
        privacy = CountPrivacy("jdp", 1.0, 1e-6, families="one_hot", counter="auto", mechanism="discrete_gaussian")
    elif name != "ldp":
        privacy = CountPrivacy("jdp", 1.0, delta=1e-6, counter=name)

    def build() -> CountPrivatizer:
        return privacy.build(families, N_USERS, Streams(3, name), growth=GROWTH)

    return build


def play(privatizer: CountPrivatizer, users: list[UserRecord], first: int = 1) -> dict[int, np.ndarray]:
    """Send all users' records and release on the schedule; return the releases by number of users."""
    found = {}
    for user, record in enumerate(users, start=first):
        send_and_aggregate(privatizer.channel, record.index, record.value, user)
        if user in TIMES:
            release(privatizer.channel)
            found[user] = privatizer.channel.needed.copy()
    return found


def test_releases_are_exact_sums_and_the_counters_noise(privatizer_of: Maker, users_of: Users) -> None:
    """Release j has the noise that a counter with a release after every user has at item j."""
    families, counter = privatizer_of("none").query.families, "binary_tree"
    scheduled = CountPrivacy("jdp", 1.0, counter=counter, families="separate").build(
        families, N_USERS, Streams(3, ""), growth=GROWTH
    )
    assert scheduled.query.counter.n_items == len(TIMES)
    users = users_of(scheduled, N_USERS)
    scheduled.charge(1, N_USERS)
    found = play(scheduled, users)
    exact = np.array([found[user] - play_exactly(families, users[:user]) for user in TIMES])
    node = scheduled.query.counter.node
    assert node is not None
    assert np.isclose(node.scale, len(families.families) * 2 * families.n_steps * 4)  # four levels for eight releases
    # Binary tree: release 3 is the sum of the nodes of items 1-2 and 3; releases 2 and 4 have one node each.
    for a, b in ((0, 1), (1, 3), (3, 7)):
        assert not np.isclose(exact[a], exact[b]).any()
    assert abs(np.abs(exact[[0, 1, 3, 7]]).mean() / node.scale - 1.0) < 0.2


def play_exactly(families: object, users: list[UserRecord]) -> np.ndarray:
    exact = CountPrivacy("none").build(families, N_USERS, Streams(0, "exact"))  # type: ignore[arg-type]
    exact.charge(1, N_USERS)
    for user, record in enumerate(users, start=1):
        send_and_aggregate(exact.channel, record.index, record.value, user)
        release(exact.channel)
    return np.asarray(exact.channel.needed.copy())


def test_a_release_that_is_not_on_schedule_is_refused(built: Callable[[], CountPrivatizer], users_of: Users) -> None:
    privatizer = built()
    users = users_of(privatizer, N_USERS)
    privatizer.charge(1, N_USERS)
    play(privatizer, users[:4])
    last = privatizer.release()
    send_and_aggregate(privatizer.channel, users[4].index, users[4].value, 5)
    if not privatizer.server_noise:
        assert privatizer.release().users == 5
        return
    later = privatizer.release()
    assert (later.users, later.values.tolist()) == (4, last.values.tolist())
    send_and_aggregate(privatizer.channel, users[5].index, users[5].value, 6)
    with pytest.raises(LedgerError, match="the schedule has no release after these users"):
        release(privatizer.channel)


def test_every_user_is_released_where_that_is_asked_for_or_printed(privatizer_of: Maker) -> None:
    families = privatizer_of("none").query.families
    for privacy in (CountPrivacy("jdp", 1.0, releases="every_user"), CountPrivacy("jdp", 1.0, calibration="printed")):
        query = privacy.build(families, N_USERS, Streams(0, ""), growth=GROWTH).query
        assert (query.schedule, query.counter.n_items) == (None, N_USERS)


# Counts that are summed over the steps of an episode, for environments that are the same at every step.

H, PAIRS, STATES = 6, 4, 2
FAMILIES = (
    CountFamily("transitions", PAIRS * STATES),
    CountFamily("visits", PAIRS, marginal_of="transitions"),
    CountFamily("losses", PAIRS, marginal_of="transitions", indicator=False),
)
STREAMS = Streams(0, "pooled")
RUNS, ALPHA = 200_000, 1e-4


def pooled(steps: int = H) -> PooledFamilies:
    return PooledFamilies(steps, FAMILIES)


def exactly(families: CountFamilies, kind: str, n_users: int = 20) -> CountPrivatizer:
    """A privatizer without noise."""
    query = CountQuery(CountEncoding(families, kind), None, ExactCounter(n_users))
    return Privatizer(design_of(query, n_users, None), STREAMS)


def trajectory(generator: np.random.Generator, steps: int = H) -> UserRecord:
    cells = generator.integers(PAIRS * STATES, size=steps)
    index = np.stack([cells, cells % PAIRS, cells % PAIRS], axis=1)
    return UserRecord(index, np.stack([np.ones(steps), np.ones(steps), generator.random(steps)], axis=1))


@settings(deadline=None)  # the first call compiles
@given(st.integers(0, 2**32 - 1), st.sampled_from(["separate", "one_hot"]))
def test_no_two_records_differ_by_more(seed: int, kind: str) -> None:
    """Records with any content: a faulty device may send contradictory or invalid cells."""
    generator = np.random.default_rng(seed)
    most = generator.integers(1, 2 * PAIRS * STATES)
    rows = []
    for _ in range(2):
        index, value = generator.integers(-2, most, size=(H, 3)), 2.0 * generator.standard_normal((H, 3))
        privatizer = exactly(pooled(), kind)
        rows.append(sent_row(privatizer, UserRecord(index, value)))
    encoding = CountEncoding(pooled(), kind)
    row, changed = encoding.released.row(len(encoding.released.families)), np.abs(rows[0] - rows[1])
    assert changed.sum() <= row.l1
    rises = (rows[0] - rows[1])[rows[0] > rows[1]].sum()
    assert max(rises, changed.sum() - rises) <= row.l1 / 2 + 1e-9
    assert np.linalg.norm(changed) <= row.l2 + 1e-9
    assert changed.max() <= row.linf
    assert np.count_nonzero(changed) <= row.cells


@pytest.mark.parametrize("known", [False, True])
def test_the_sensitivity_of_released_cells_is_attained(known: bool) -> None:
    """Over all pairs of records."""
    pairs, states, steps = 2, 2, 4
    widths = {"transitions": pairs * states, "visits": pairs, "losses": pairs}
    families = tuple(replace(each, width=widths[each.name]) for each in FAMILIES)[: 2 if known else 3]
    encoding = CountEncoding(PooledFamilies(steps, families), "one_hot")
    privatizer, sums = exactly(encoding.needed, "one_hot"), set()
    for cells in itertools.product(range(pairs * states), repeat=steps):
        for losses in [(1.0,) * steps] if known else itertools.product((0.0, 1.0), repeat=steps):
            index = np.stack([np.array(cells), *[np.array(cells) % pairs] * (len(families) - 1)], axis=1)
            value = np.ones(index.shape)
            value[:, -1] = losses
            sums.add(tuple(sent_row(privatizer, UserRecord(index, value))))
    rows = np.array(sorted(sums))
    changes = np.abs(rows[:, None] - rows[None])
    row = encoding.released.row(len(encoding.released.families))
    assert changes.sum(axis=2).max() == row.l1 == 2 * steps
    assert np.sqrt((changes**2).sum(axis=2).max()) == pytest.approx(row.l2)
    assert (changes.max(), np.count_nonzero(changes, axis=2).max()) == (row.linf, row.cells)


@pytest.mark.parametrize("kind", ["separate", "one_hot"])
def test_they_are_the_counts_of_all_steps(kind: str) -> None:
    generator = np.random.default_rng(1)
    records = [trajectory(generator) for _ in range(20)]
    for record in records:
        record.value[:] = np.round(record.value)  # so that coins are not random
    privatizer = exactly(pooled(), kind)
    for user, record in enumerate(records, start=1):
        sent(privatizer, record, user)
    counts = privatizer.release()
    expected = {family.name: np.zeros(family.width) for family in FAMILIES}
    for record in records:
        for (cell, pair, _), value in zip(record.index, record.value, strict=True):
            expected["transitions"][cell] += 1
            expected["visits"][pair] += 1
            expected["losses"][pair] += value[2]
    for name, cells in expected.items():
        assert np.array_equal(privatizer.query.family(counts, name)[0], cells)


@pytest.mark.parametrize("mechanism", ["laplace", "sampled_optimized_unary_encoding", "sampled_direct_encoding"])
def test_local_reports_add_up_to_them_on_average(mechanism: str) -> None:
    """Their error is the certified one, and error bounds at 1e-6 hold."""
    generator, n_users = np.random.default_rng(2), 1000
    privacy = CountPrivacy("ldp", 4.0, families="one_hot", mechanism=mechanism)
    exact, noisy = exactly(pooled(), "one_hot", n_users), privacy.build(pooled(), n_users, STREAMS)
    for user in range(1, n_users + 1):
        record = trajectory(generator)
        record.value[:] = np.round(record.value)
        for privatizer in (exact, noisy):
            sent(privatizer, record, user)
    truth, found = exact.release().values, noisy.release().values
    certificate = noisy.certificate("x").to_dict()
    assert certificate["verdict"] == "holds"
    transitions = noisy.query.family
    error = transitions(noisy.release(), "transitions") - transitions(exact.release(), "transitions")
    # The most of a cell, at the end: every user adds the noise's variance at each of 6 steps, and a little more where a
    # bit is 1. Of 8 cells, the mean square lies in these bounds but for a chance of 1e-3, and not without the 6 steps.
    ratio = np.sqrt(np.mean(error**2)) / certificate["error"]["max"]
    assert 0.35 < ratio < 1.9
    bounds = noisy.precision(1e-6)
    assert np.abs(error).max() <= bounds["transitions"]
    assert np.abs(found - truth).max() <= max(bounds.values())
    sums = ("transitions", STATES, 1, n_users)
    assert np.abs(error.reshape(STATES, PAIRS).sum(axis=0)).max() <= noisy.query.weighted_precision(*sums, 1e-6)


@given(
    st.integers(1, 3),
    st.floats(0.05, 0.45),
    st.floats(0.5, 0.99),
    st.lists(st.floats(0.0, 1.0), min_size=2, max_size=3),
    st.floats(-3.0, 3.0),
)
def test_the_moment_of_a_pooled_sum_is_the_largest(
    steps: int, q: float, p: float, weights: list[float], argument: float
) -> None:
    """The largest over all trajectories and weights in [0, 1], by listing trajectories, bits and steps sent."""
    cells = len(weights)
    bound = _log_pooled_moment(UnaryCell(p, q, steps, cells), argument)
    for path in itertools.product(range(cells + 1), repeat=steps):  # the last cell is in no sum
        truth = sum(weights[cell] for cell in path if cell < cells)
        mean = 0.0
        for hot in path:
            log = 0.0
            for cell, weight in enumerate(weights):
                chance = p if cell == hot else q
                step = argument * steps * weight / (p - q)
                log += math.log((1 - chance) * math.exp(-step * q) + chance * math.exp(step * (1 - q)))
            mean += math.exp(log) / steps
        assert math.log(mean) - argument * truth <= bound + 1e-9


def attacked(config: CountPrivacy, claim: Claim, runs: int = RUNS) -> Any:
    privatizer = config.build(pooled(steps=3), 2, STREAMS)
    probe = central_prefixes if privatizer.trust_model == "jdp" else local_reports
    proved = proof_of(privatizer.planned_ledger().curve, claim)
    return measure(probe(privatizer, f"{config}"), claim, proved, runs=runs, seed=0, alpha=ALPHA)


@pytest.mark.parametrize(
    ("model", "settings"),
    [
        ("jdp", {"counter": "kary_tree"}),
        ("ldp", {"mechanism": "laplace"}),
        ("ldp", {"mechanism": "sampled_optimized_unary_encoding"}),
        ("ldp", {"mechanism": "sampled_direct_encoding"}),
    ],
)
def test_audits_reach_the_proof_and_refute_two_thirds_of_the_noise(model: Any, settings: Any) -> None:
    """False alarm of a sound release: below 1e-4."""
    sound = attacked(CountPrivacy(model, 1.0, families="one_hot", **settings), Claim(1.0))
    assert not sound.refutes
    assert 0.6 < sound.epsilon_lb <= 1.0
    assert attacked(CountPrivacy(model, 1.5, families="one_hot", **settings), Claim(1.0)).refutes


def test_the_certificate_says_what_is_assumed() -> None:
    def certificate(families: CountFamilies) -> Any:
        return CountPrivacy("jdp", 1.0).build(families, 9, STREAMS).planned_certificate("x").to_dict()

    assert certificate(CountFamilies(H, FAMILIES))["assumption"] is None
    assert certificate(pooled())["assumption"].startswith("the environment is the same at every step")


def pooled_built(env: Any, privacy: CountPrivacy, **settings: Any) -> CountPrivatizer:
    return BernsteinVIConfig(stationary=True, **settings).privatizer(env.build(), privacy, 100, STREAMS)


@pytest.mark.parametrize("env", [RiverSwim(), GridWorld(), Garnet(), RandomMDP(stationary=True)])
def test_environments_that_are_the_same_at_every_step(env: Any) -> None:
    privatizer = pooled_built(env, CountPrivacy("none"))
    sizes = env.build()
    assert privatizer.query.families.n_cells == sizes.n_states * sizes.n_actions * (sizes.n_states + 2)
    assert privatizer.in_blocks


def test_others_are_refused() -> None:
    with pytest.raises(ValueError, match="stationary must be false on random_mdp, got true"):
        pooled_built(RandomMDP(), CountPrivacy("none"))
    with pytest.raises(ValueError, match="calibration must be certified here, got printed"):
        pooled_built(RiverSwim(), CountPrivacy("jdp", 1.0, calibration="printed"))
    with pytest.raises(ValueError, match="stationary must be true or false"):
        BernsteinVIConfig(stationary="yes")  # type: ignore[arg-type]


# Model shuffle: blocks, certificates of the blocks that ran, and refusals.

MDP = RiverSwim(n_states=3, horizon=4).build()
COUNTED = count_families(MDP)
PRIVACY = CountPrivacy("shuffle", 1.0, 1e-6, smallest_block=2_000)
DRAWS = Streams(0, "shuffle")


@pytest.mark.parametrize("growth", [0.0, 0.01, 0.5])
def test_every_block_is_full_and_the_rest_is_never_released(growth: float) -> None:
    schedule = ReleaseSchedule(growth, 20_999, 2_000)
    assert np.diff(schedule.times, prepend=0).min() >= 2_000
    assert schedule.users - schedule.times[-1] < max(2_000, growth * 21_000)
    assert schedule.times[0] == 2_000


def test_the_certificate_is_that_of_the_smallest_block() -> None:
    privatizer = PRIVACY.build(COUNTED, 20_000, DRAWS, growth=0.5)
    each = local_epsilon(1.0, 1e-6, 2_000)
    privatizer.charge(1, 20_000)
    told = privatizer.certificate("test").to_dict()
    assert 1.0 < each < 4.0
    assert told["verdict"] == "holds"
    assert told["proved"]["pure_epsilon"] == pytest.approx(each, rel=1e-6)
    assert told["proved"]["epsilon_at_delta"]["1e-06"] == pytest.approx(1.0, rel=2e-2)
    assert told["noise"][0]["parameters"]["users"] == 2_000
    assert told["proved"]["tightness"] == "upper"
    assert told["releases"] == ReleaseSchedule(0.5, 20_000, 2_000).number


@pytest.mark.parametrize("mechanism", ["laplace", "sampled_optimized_unary_encoding", "sampled_direct_encoding"])
def test_reports_and_error_bounds_are_those_of_the_local_model(mechanism: str) -> None:
    each = local_epsilon(1.0, 1e-6, 2_000)
    shuffled = replace(PRIVACY, mechanism=mechanism).build(COUNTED, 20_000, DRAWS, growth=0.5).query
    local = CountPrivacy("ldp", each, families="one_hot", mechanism=mechanism).build(COUNTED, 20_000, DRAWS).query
    assert (shuffled.report, shuffled.counter) == (local.report, local.counter)
    sums = ("transitions", 3, 40, 20_000)
    assert shuffled.weighted_precision(*sums, 0.05) == local.weighted_precision(*sums, 0.05)
    curve = shuffled.events("seeded")[0].curve()
    assert isinstance(curve, ShuffledLoss)
    assert curve.epsilon(1e-6) <= 1.0


@pytest.mark.parametrize("simulation", ["users", "blocks"])
def test_plans_wait_for_full_blocks(simulation: Any) -> None:
    """No release has fewer users than a block, and a policy changes only after a block."""
    config = BernsteinVIConfig(simulation=simulation, replan_growth=0.01, preset="tuned")
    privatizer = config.privatizer(MDP, PRIVACY, 7_001, DRAWS)
    learner = config.build(MDP, privatizer, 7_001, DRAWS)
    seen = set()
    for _ in range(7):
        learner.learn(1_000)
        seen.add(learner.privatizer.release().users)
    assert seen == {0, 2_000, 4_000, 6_000}
    assert np.isfinite(learner.privatizer.release().values).all()


def sent_by(privatizer: CountPrivatizer, first: int, last: int) -> None:
    record = UserRecord(np.zeros((4, 3), dtype=np.int64), np.ones((4, 3)))
    for user in range(first, last + 1):
        sent(privatizer, record, user)  # the release changes only if this user fills a block


@pytest.mark.parametrize("users", [1, 30, 35, 59, 60])
def test_a_resumed_run_releases_no_report_of_a_block_under_way(users: int) -> None:
    privacy = replace(PRIVACY, smallest_block=30)
    whole, resumed = (privacy.build(COUNTED, 200, DRAWS, growth=0.01) for _ in range(2))
    sent_by(whole, 1, users)
    state = whole.state_dict()
    resumed.load_state_dict({key: array.copy() for key, array in state.items()})
    live, again = whole.release(), resumed.release()
    assert (live.users, again.users) == (users // 30 * 30,) * 2
    assert np.array_equal(live.values, again.values)
    assert bool(live.values.any()) == (users >= 30)
    sent_by(whole, users + 1, 90)
    sent_by(resumed, users + 1, 90)
    assert np.array_equal(whole.release().values, resumed.release().values)


@pytest.mark.parametrize(
    ("mechanism", "arithmetic"),
    [("auto", "exact"), ("laplace", "fast"), ("sampled_optimized_unary_encoding", "exact"), ("auto", "fast")],
)
def test_real_users_have_whole_number_reports(mechanism: str, arithmetic: Any) -> None:
    """The last bits of a float64 sum reveal the order of its terms."""
    streams = Streams(0, "shuffle", NoiseConfig(arithmetic=arithmetic, entropy="os"))
    with pytest.raises(ValueError, match="mechanism must be discrete_laplace with model shuffle and entropy: os"):
        replace(PRIVACY, smallest_block=30, mechanism=mechanism).build(COUNTED, 200, streams, growth=0.01)


def test_no_run_goes_on_from_a_journal_with_the_rest_of_a_block(tmp_path: Path) -> None:
    privacy = replace(PRIVACY, smallest_block=30, mechanism="discrete_laplace")
    streams = Streams(0, "shuffle", NoiseConfig(entropy="os"))
    first = privacy.build(COUNTED, 200, streams, ChargeJournal(tmp_path / "charges"), growth=0.01)
    sent_by(first, 1, 28)
    del first
    with pytest.raises(LedgerError, match=r"cannot go on from a journal, .*; begin another attempt"):
        sent_by(privacy.build(COUNTED, 200, streams, ChargeJournal(tmp_path / "charges"), growth=0.01), 29, 30)
    again = privacy.build(COUNTED, 200, streams, ChargeJournal(tmp_path / "charges", continues=False), growth=0.01)
    sent_by(again, 1, 30)
    assert again.release().users == 30
    assert again.certificate("test").attempts == 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"delta": 0.0}, "delta must be above 0 with model shuffle, got 0.0; add delta: 1e-6"),
        ({"families": "separate"}, "families must be left out"),
        ({"calibration": "printed", "delta": 0.0}, "calibration must be left out with model shuffle"),
        ({"smallest_block": 0}, "smallest_block must be a whole number from 1 to 1000000000000, got 0; take 10000"),
    ],
)
def test_settings_without_a_guarantee_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CountPrivacy("shuffle", **{"epsilon": 1.0, "delta": 1e-6, **settings})


def test_laws_without_a_pure_guarantee_and_blocks_that_are_never_full_are_refused() -> None:
    with pytest.raises(ValueError, match="mechanism must be one of"):
        replace(PRIVACY, mechanism="gaussian").build(COUNTED, 20_000, DRAWS)
    with pytest.raises(ValueError, match="smallest_block must be at most 1999, the users who send a report"):
        PRIVACY.build(COUNTED, 1_999, DRAWS)


def test_only_shuffled_reports_run_under_the_model_and_only_in_one_process() -> None:
    privatizer, local = (PRIVACY.build(COUNTED, 20_000, DRAWS), CountPrivacy("ldp", 1.0).build(COUNTED, 20_000, DRAWS))
    with pytest.raises(LedgerError, match="counts with model: shuffle come from the compiled loop"):
        privatizer.lease(3)
    for query, asked in ((privatizer.query, local.design.requested), (local.query, privatizer.design.requested)):
        with pytest.raises(LedgerError, match="reports must be shuffled with model shuffle only"):
            design_of(query, 20_000, asked)
    with pytest.raises(LedgerError, match="shuffled counts must have a report with noise, and a schedule"):
        replace(local.query, shuffled=True)


def test_nobody_is_twice_in_a_block() -> None:
    made = replace(PRIVACY, smallest_block=30).build(COUNTED, 200, DRAWS, growth=0.01)
    for users, submissions in ((20, 10), (200, 2)):
        with pytest.raises(LedgerError, match="submissions must be 1 where a server counts or users are shuffled"):
            design_of(made.query, users, made.design.requested, submissions)
