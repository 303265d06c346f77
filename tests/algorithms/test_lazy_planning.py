"""Plans on a schedule fixed in advance, for every registered algorithm under every trust model."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from dprl.algorithms import ALGORITHMS
from dprl.privacy import CountPrivacy
from dprl.privacy.queries.counts import release, send_and_aggregate
from dprl.privacy.schedule import next_plan
from tests.algorithms.cases import EACH_ONLINE, ONLINE, PRACTICAL, PRIVACY, Environments, Learner, interpreted
from tests.grids import paired


def scheduled(growth: float, episodes: int) -> list[int]:
    """The episodes before which a plan is made, from the rule alone."""
    found = [1]
    while found[-1] <= episodes:
        found.append(max(found[-1] + 1, math.ceil(found[-1] * (1.0 + growth))))
    return found[:-1]


@pytest.mark.parametrize(
    ("growth", "expected"),
    [
        (0.0, [1, 2, 3, 4, 5, 6, 7, 8]),
        (0.25, [1, 2, 3, 4, 5, 7, 9, 12]),
        (1.0, [1, 2, 4, 8, 16, 32, 64, 128]),
        (2.5, [1, 4, 14, 49, 172, 602, 2107, 7375]),
    ],
)
def test_the_next_plan_is_made_when_episodes_have_grown_by_the_share(growth: float, expected: list[int]) -> None:
    assert [next_plan(growth, 1, k) for k in expected[:-1]] == expected[1:]


def test_plans_are_counted_by_the_logarithm_of_the_run() -> None:
    plans, k = 0, 1
    while k <= 1_000_000:
        plans, k = plans + 1, next_plan(0.01, 1, k)
    assert plans < 100 + math.log(10_000) / math.log(1.01) + 1


@paired(name=ONLINE, growth=[0.0, 0.03, 0.5, 1e5], privacy=PRIVACY)
def test_plans_are_made_on_the_schedule_whatever_the_data(
    privacy: Any, name: str, growth: float, learner: Learner, envs: Environments[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    config: Any = ALGORITHMS[name]
    plan, planned = config.run.plan, []

    def watched(counts: Any, bonus: Any, tables: Any) -> Any:
        planned.append((counts.users + 1, counts.new))
        return plan(counts, bonus, tables)

    interpreted(name, monkeypatch, watched)
    expected = scheduled(growth, 80)
    for seed in (1, 2):
        planned.clear()
        algorithm = learner(envs.small, 80, privacy, name=name, seed=seed, replan_growth=growth, **PRACTICAL)
        before = algorithm.policy
        for k in range(1, 81):
            algorithm.learn(1)
            assert k in expected or np.array_equal(algorithm.policy, before)
            before = algorithm.policy
        assert [episode for episode, _ in planned] == expected
        assert [new for _, new in planned] == [0, *(later - k for k, later in pairwise(expected))]
    assert growth > 0.0 or expected == list(range(1, 81))


@EACH_ONLINE
@pytest.mark.parametrize(
    "privacy",
    [*PRIVACY, CountPrivacy("jdp", 20.0, families="one_hot"), CountPrivacy("ldp", 4.0, families="one_hot")],
    ids=lambda settings: f"{settings.model} {getattr(settings, 'families', '')}",
)
def test_counts_that_no_plan_reads_need_no_release(
    privacy: Any, name: str, learner: Learner, envs: Environments[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    if privacy.model == "jdp":
        privacy = replace(privacy, releases="every_user")
    settings: dict[str, Any] = {"replan_growth": 0.1, "simulation": "users", **PRACTICAL}
    lazy, eager = (learner(envs.small, 100, privacy, name=name, **settings) for _ in range(2))
    steps = [1, 10, 3, 22, 30, 34]
    segments, counts = [], []
    for n in steps:
        segments.append(lazy.learn(n))
        counts.append(lazy.privatizer.release().values.copy())

    def send_and_release(channel: Any, *record: Any) -> None:
        send_and_aggregate(channel, *record)
        release(channel)

    monkeypatch.setitem(interpreted(name, monkeypatch), "send_and_aggregate", send_and_release)
    for n, segment, released in zip(steps, segments, counts, strict=True):
        assert eager.learn(n) == segment
        assert np.array_equal(eager.privatizer.release().values, released)
    assert np.array_equal(lazy.policy, eager.policy)


@EACH_ONLINE
def test_only_the_printed_algorithm_is_covered_by_a_theorem(name: str) -> None:
    config: Any = ALGORITHMS[name]
    printed = config().covered_by
    assert printed is None or printed.strip()
    assert config(bonus_scale=0.5).covered_by is None
    assert config(precision_scale=0.5).covered_by is None
    if printed is not None and printed.startswith("["):  # a paper's; our own may be proved for more
        assert config(replan_growth=0.01).covered_by is None
