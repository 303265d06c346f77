"""Model shuffle: blocks, certificates of the blocks that ran, and refusals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dprl.algorithms.bernstein_vi import BernsteinVIConfig
from dprl.algorithms.tabular.simulator import count_families
from dprl.envs import RiverSwim
from dprl.privacy import CountPrivacy, CountPrivatizer, LedgerError, NoiseConfig, Streams, UserRecord
from dprl.privacy.accounting.amplification import ShuffledLoss, local_epsilon
from dprl.privacy.journal import ChargeJournal
from dprl.privacy.schedule import ReleaseSchedule
from tests.privacy.by_hand import design_of
from tests.privacy.sending import sent

MDP = RiverSwim(n_states=3, horizon=4).build()
FAMILIES = count_families(MDP)
PRIVACY = CountPrivacy("shuffle", 1.0, 1e-6, smallest_block=2_000)
STREAMS = Streams(0, "shuffle")


@pytest.mark.parametrize("growth", [0.0, 0.01, 0.5])
def test_every_block_is_full_and_the_rest_is_never_released(growth: float) -> None:
    schedule = ReleaseSchedule(growth, 20_999, 2_000)
    assert np.diff(schedule.times, prepend=0).min() >= 2_000
    assert schedule.users - schedule.times[-1] < max(2_000, growth * 21_000)
    assert schedule.times[0] == 2_000


def test_the_certificate_is_that_of_the_smallest_block() -> None:
    privatizer = PRIVACY.build(FAMILIES, 20_000, STREAMS, growth=0.5)
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
    shuffled = replace(PRIVACY, mechanism=mechanism).build(FAMILIES, 20_000, STREAMS, growth=0.5).query
    local = CountPrivacy("ldp", each, families="one_hot", mechanism=mechanism).build(FAMILIES, 20_000, STREAMS).query
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
    privatizer = config.privatizer(MDP, PRIVACY, 7_001, STREAMS)
    learner = config.build(MDP, privatizer, 7_001, STREAMS)
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
    whole, resumed = (privacy.build(FAMILIES, 200, STREAMS, growth=0.01) for _ in range(2))
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
        replace(PRIVACY, smallest_block=30, mechanism=mechanism).build(FAMILIES, 200, streams, growth=0.01)


def test_no_run_goes_on_from_a_journal_with_the_rest_of_a_block(tmp_path: Path) -> None:
    privacy = replace(PRIVACY, smallest_block=30, mechanism="discrete_laplace")
    streams = Streams(0, "shuffle", NoiseConfig(entropy="os"))
    first = privacy.build(FAMILIES, 200, streams, ChargeJournal(tmp_path / "charges"), growth=0.01)
    sent_by(first, 1, 28)
    del first
    with pytest.raises(LedgerError, match=r"cannot go on from a journal, .*; begin another attempt"):
        sent_by(privacy.build(FAMILIES, 200, streams, ChargeJournal(tmp_path / "charges"), growth=0.01), 29, 30)
    again = privacy.build(FAMILIES, 200, streams, ChargeJournal(tmp_path / "charges", continues=False), growth=0.01)
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
        replace(PRIVACY, mechanism="gaussian").build(FAMILIES, 20_000, STREAMS)
    with pytest.raises(ValueError, match="smallest_block must be at most 1999, the users who send a report"):
        PRIVACY.build(FAMILIES, 1_999, STREAMS)


def test_only_shuffled_reports_run_under_the_model_and_only_in_one_process() -> None:
    privatizer, local = (
        PRIVACY.build(FAMILIES, 20_000, STREAMS),
        CountPrivacy("ldp", 1.0).build(FAMILIES, 20_000, STREAMS),
    )
    with pytest.raises(LedgerError, match="counts with model: shuffle come from the compiled loop"):
        privatizer.lease(3)
    for query, asked in ((privatizer.query, local.design.requested), (local.query, privatizer.design.requested)):
        with pytest.raises(LedgerError, match="reports must be shuffled with model shuffle only"):
            design_of(query, 20_000, asked)
    with pytest.raises(LedgerError, match="shuffled counts must have a report with noise, and a schedule"):
        replace(local.query, shuffled=True)


def test_nobody_is_twice_in_a_block() -> None:
    made = replace(PRIVACY, smallest_block=30).build(FAMILIES, 200, STREAMS, growth=0.01)
    for users, submissions in ((20, 10), (200, 2)):
        with pytest.raises(LedgerError, match="submissions must be 1 where a server counts or users are shuffled"):
            design_of(made.query, users, made.design.requested, submissions)
