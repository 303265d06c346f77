"""Privatizers work for all runs that fit their noise, and for no others."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from dprl.privacy import (
    CountFamilies,
    CountFamily,
    CountPrivacy,
    GradientPrivacy,
    LedgerError,
    NoiseConfig,
    Privatizer,
    StatisticsPrivacy,
    Streams,
)
from dprl.privacy.base import Guarantee
from dprl.privacy.counters import COUNTERS
from dprl.privacy.journal import ChargeJournal
from dprl.privacy.queries.gradients import GradientLayout
from dprl.privacy.queries.linear_statistics import StatisticsLayout
from tests.privacy.by_hand import design_of

FAMILIES = CountFamilies(2, (CountFamily("visits", 4),))
STREAMS = Streams(0, "runs that fit")
ONE_SUBMISSION = "submissions must be 1 where a server counts or users are shuffled on a schedule, got 2"


def private(query: Any, n_users: int, submissions: int = 1) -> Privatizer[Any]:
    asked = Guarantee("jdp", 1.0, 1e-6)
    return Privatizer(design_of(query, n_users, asked, submissions), STREAMS)


def test_a_design_runs_with_its_own_noise_and_on_its_own_streams() -> None:
    strong, weak = (CountPrivacy("ldp", epsilon).design(FAMILIES, 9, NoiseConfig()) for epsilon in (1.0, 100.0))
    secret = CountPrivacy("ldp", 1.0).design(FAMILIES, 9, NoiseConfig("exact", "os"))
    for design in (secret, dataclasses.replace(strong, query=weak.query), dataclasses.replace(strong, model="shuffle")):
        with pytest.raises(LedgerError):
            Privatizer(design, STREAMS)
    assert Privatizer(strong, STREAMS).n_users == 9


@pytest.mark.parametrize("counter", COUNTERS)
@pytest.mark.parametrize(("growth", "users"), [(0.0, 9), (0.5, 40)])
def test_a_counter_is_for_so_many_users_and_one_submission_each(counter: str, growth: float, users: int) -> None:
    query = CountPrivacy("jdp", 1.0, 1e-6, counter=counter).build(FAMILIES, users, STREAMS, growth=growth).query
    assert private(query, users).n_users == users
    with pytest.raises(ValueError, match=f"n_users must be at most {users}, got {users + 1}; build a counter for more"):
        private(query, users + 1)
    with pytest.raises(LedgerError, match=ONE_SUBMISSION):
        private(query, 2, 2)


def test_a_counter_of_statistics_is_for_so_many_users_and_one_submission_each() -> None:
    query = StatisticsPrivacy("jdp", 1.0).build(StatisticsLayout(5, 4, 2, 2, 3), 9, STREAMS).query
    with pytest.raises(ValueError, match="n_users must be at most 9, got 10"):
        private(query, 10)
    with pytest.raises(LedgerError, match=ONE_SUBMISSION):
        private(query, 4, 2)


def test_nobody_is_twice_in_a_window() -> None:
    settings = GradientPrivacy("jdp", 1.0, 1e-6, "clipped_gaussian", clip=1.0, submissions=3)
    built = settings.build(GradientLayout(dimension=4, window=5), 30, STREAMS)
    with pytest.raises(LedgerError, match="window must be at most n_users, 10, got 11"):
        design_of(dataclasses.replace(built.query, window=11), 10, built.design.requested, 3)


def test_seeded_noise_is_not_drawn_again_for_other_data(tmp_path: Any) -> None:
    def built(model: Any, **settings: Any) -> Privatizer[Any]:
        made: Privatizer[Any] = model.build(FAMILIES, 9, STREAMS, ChargeJournal(tmp_path / model.model, **settings))
        return made

    def charged(privatizer: Privatizer[Any]) -> None:
        privatizer.charge(1, 4)
        vars(privatizer)["_journal"].close()

    central, local = CountPrivacy("jdp", 1.0, counter="kary_tree"), CountPrivacy("ldp", 1.0)
    waiting = built(central)
    for model in (central, local):
        charged(built(model))
        with pytest.raises(LedgerError, match="noise of a seed must be drawn once"):
            built(model, continues=False)
    with pytest.raises(LedgerError, match="noise of a seed must be drawn once"):
        built(central)
    with pytest.raises(LedgerError, match="noise of a seed must be drawn once"):
        waiting.charge(1, 4)
    # On the users' side, further users draw their own noise.
    (tmp_path / "ldp").unlink()
    charged(built(local))
    assert built(local).charged == 4


@pytest.mark.parametrize(
    ("epsilon", "delta", "submissions"),
    [(69.245, 1e-2, 1), (24.484, 1e-9, 5), (4.631, 1e-10, 2)],
)
def test_gradients_hold_what_they_are_calibrated_for(epsilon: float, delta: float, submissions: int) -> None:
    model = GradientPrivacy(
        "jdp", epsilon, delta, "clipped_gaussian", clip=1.0, submissions=submissions, counter="none"
    )
    assert model.build(GradientLayout(dimension=4), 30, STREAMS).planned_certificate("x").verdict == "holds"


@pytest.mark.parametrize(
    "model", [CountPrivacy("ldp", 1e-4, 1e-6, mechanism="laplace"), CountPrivacy("ldp", 1e-4, 1e-6)]
)
def test_laws_without_a_scale_for_the_budget_are_passed_over(model: CountPrivacy) -> None:
    made = model.build(FAMILIES, 9, Streams(0, "exact", NoiseConfig("exact", "seed")))
    best = made.planned_certificate("x").to_dict()["best_available"]
    assert best["ratio"] >= 1.0
