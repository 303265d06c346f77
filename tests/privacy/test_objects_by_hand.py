"""Objects made by hand, and runs that do not fit their noise: nothing runs that a certificate does not say."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dprl.privacy import (
    CountFamilies,
    CountFamily,
    CountPrivacy,
    GradientLayout,
    GradientPrivacy,
    LedgerError,
    NoiseConfig,
    PrivateMessages,
    Privatizer,
    StatisticsLayout,
    StatisticsPrivacy,
    Streams,
    SubmissionRange,
)
from dprl.privacy.base import Guarantee
from dprl.privacy.counters import COUNTERS, BinaryTree
from dprl.privacy.journal import ChargeJournal
from dprl.privacy.ledger import Ledger
from dprl.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from tests.privacy.by_hand import design_of

# Objects made by hand in one process: what a second reader used to run noise other than the certificate's.

FAMILIES = CountFamilies(2, (CountFamily("visits", 3), CountFamily("rewards", 3, indicator=False)))
STREAMS = Streams(0, "by hand")


def counts(model: str = "jdp", **settings: Any) -> Privatizer[Any]:
    return CountPrivacy(model, 1.0, **settings).build(FAMILIES, 8, STREAMS)


def test_a_changed_certificate_changes_no_other() -> None:
    honest = counts().planned_certificate("x").to_dict()
    taken = counts().planned_certificate("x").to_dict()
    taken["episodes_per_user"]["bounds"][0]["epsilon"] = 1e-3
    taken["error"]["rms"] = taken["best_available"]["ratio"] = 0.0
    taken["noise"][0]["cells"] = 0
    assert counts().planned_certificate("x").to_dict() == honest


def test_whole_numbers_of_noise_are_not_for_real_sums() -> None:
    layout = StatisticsLayout(horizon=2, dimension=2, n_messages=1, n_agents=1, reward_dimension=1)
    query = StatisticsPrivacy("jdp", 1.0, delta=1e-6).build(layout, 8, STREAMS).query
    with pytest.raises(LedgerError, match="the kernels cannot run a counter"):
        replace(query, counter=BinaryTree(8, DiscreteLaplace(9.7)))


@pytest.mark.parametrize("groups", [((0,), (1,)), ((0,),)])
def test_a_user_of_one_query_is_in_all_its_releases(groups: tuple[tuple[int, ...], ...]) -> None:
    with pytest.raises(LedgerError, match="groups are of composed runs"):
        replace(counts(families="separate").design, groups=groups)


@pytest.mark.parametrize(
    "name",
    ["design", "query", "trust_model", "server_noise", "n_users", "submissions", "capacity", "in_blocks", "ledger"],
)
def test_what_a_certificate_reads_is_fixed(name: str) -> None:
    with pytest.raises(AttributeError, match=f"{name} of a privatizer is fixed"):
        setattr(counts(), name, None)


def test_a_resumed_run_remembers_that_it_simulates_blocks() -> None:
    before, after = (
        CountPrivacy("jdp", 1.0).build(CountFamilies(2, (CountFamily("visits", 3),)), 8, STREAMS) for _ in range(2)
    )
    before.simulate_in_blocks()
    after.load_state_dict(before.state_dict())
    assert after.certificate("x").to_dict()["simulation"] == "blocks"


def test_charges_are_not_negative() -> None:
    with pytest.raises(LedgerError, match="charges must be at least 0"):
        Ledger(counts().design, charges=[-3])


def gradients(model: str = "ldp", n: int = 50, window: int = 1, entropy: Any = "seed") -> Privatizer[Any]:
    noise = NoiseConfig("exact" if entropy == "os" else "fast", entropy)
    settings: dict[str, Any] = {"mechanism": "clipped_laplace"}
    if model == "jdp":
        settings = {"delta": 1e-6, "counter": "none"}
    layout = GradientLayout(2, window, paper=False)
    return GradientPrivacy(model, 1.0, clip=2.0, **settings).build(layout, n, Streams(0, "by hand", noise))


@pytest.mark.parametrize("kind", ["secret noise", "journal"])
def test_a_fork_gives_away_nothing_that_was_charged_ahead(kind: str, tmp_path: Path) -> None:
    privatizer = gradients(entropy="os" if kind == "secret noise" else "seed")
    if kind == "journal":
        privatizer.persist(ChargeJournal(tmp_path / "charges"))
    privatizer.lease(1, needed=10)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            privatizer.lease(1)
        except LedgerError:
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert privatizer.lease(1).first == 2


def test_threads_never_lease_the_same_submission() -> None:
    privatizer = gradients(n=8100)
    with ThreadPoolExecutor(4) as threads:
        leased = list(threads.map(lambda _: privatizer.lease(1, needed=30).first, range(8000)))
    assert sorted(leased) == list(range(1, 8001))


@pytest.mark.parametrize(
    "made",
    [
        lambda: PrivateMessages(1.5, np.zeros((1, 2)), "x"),  # type: ignore[arg-type]
        lambda: PrivateMessages(1, np.zeros(2), "x"),
        lambda: SubmissionRange(1.5, 2, 3, "x"),  # type: ignore[arg-type]
    ],
)
def test_numbers_of_submissions_are_whole(made: Callable[[], object]) -> None:
    with pytest.raises((TypeError, ValueError)):
        made()
    assert PrivateMessages(1, np.ones((1, 2), np.int64), "x").values.tolist() == [[1.0, 1.0]]


def test_messages_that_are_refused_can_come_again() -> None:
    privatizer = gradients("jdp", window=2)
    messages = privatizer.new_client().send(privatizer.lease(2), np.ones((2, 2)))
    first = PrivateMessages(1, messages.values[:1], messages.issuer)
    for wrong in ((), (first,), (PrivateMessages(1, np.zeros((2, 3)), messages.issuer),)):
        with pytest.raises(LedgerError, match=r"one length|a sum is of 2|a message has 2"):
            privatizer.accept(*wrong)
    assert privatizer.accept(messages).shape == (2, 2)


def test_a_record_that_is_no_number_is_not_quoted() -> None:
    privatizer = gradients()
    for record in (np.array([["secret", "1"]]), np.array([[None, 1.0]], dtype=object)):
        with pytest.raises(ValueError, match="a gradient must have shape") as refused:
            privatizer.new_client().send(privatizer.lease(1), record)
        assert "secret" not in str(refused.value)


def test_noise_for_several_families_meets_the_request_as_composed() -> None:
    """One joint row has smaller roundings than its families one by one."""
    families = CountFamilies(3, (CountFamily("visits", 6), CountFamily("transitions", 30)))
    privacy = CountPrivacy("jdp", 1.0, 1e-6, counter="kary_tree", mechanism="discrete_gaussian", families="separate")
    certificate = privacy.build(families, 200, STREAMS).planned_certificate("x")
    assert certificate.verdict == "holds"
    assert 0.99 < certificate.proved_epsilon <= 1.0


# Privatizers work for all runs that fit their noise, and for no others.

FIT_FAMILIES = CountFamilies(2, (CountFamily("visits", 4),))
ONE_SUBMISSION = "submissions must be 1 where a server counts or users are shuffled on a schedule, got 2"


def private(query: Any, n_users: int, submissions: int = 1) -> Privatizer[Any]:
    asked = Guarantee("jdp", 1.0, 1e-6)
    return Privatizer(design_of(query, n_users, asked, submissions), STREAMS)


def test_a_design_runs_with_its_own_noise_and_on_its_own_streams() -> None:
    strong, weak = (CountPrivacy("ldp", epsilon).design(FIT_FAMILIES, 9, NoiseConfig()) for epsilon in (1.0, 100.0))
    secret = CountPrivacy("ldp", 1.0).design(FIT_FAMILIES, 9, NoiseConfig("exact", "os"))
    for design in (secret, dataclasses.replace(strong, query=weak.query), dataclasses.replace(strong, model="shuffle")):
        with pytest.raises(LedgerError):
            Privatizer(design, STREAMS)
    assert Privatizer(strong, STREAMS).n_users == 9


@pytest.mark.parametrize("counter", COUNTERS)
@pytest.mark.parametrize(("growth", "users"), [(0.0, 9), (0.5, 40)])
def test_a_counter_is_for_so_many_users_and_one_submission_each(counter: str, growth: float, users: int) -> None:
    query = CountPrivacy("jdp", 1.0, 1e-6, counter=counter).build(FIT_FAMILIES, users, STREAMS, growth=growth).query
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
        made: Privatizer[Any] = model.build(FIT_FAMILIES, 9, STREAMS, ChargeJournal(tmp_path / model.model, **settings))
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


@pytest.mark.parametrize(("epsilon", "delta", "submissions"), [(69.245, 1e-2, 1), (24.484, 1e-9, 5), (4.631, 1e-10, 2)])
def test_gradients_hold_what_they_are_calibrated_for(epsilon: float, delta: float, submissions: int) -> None:
    model = GradientPrivacy("jdp", epsilon, delta, "clipped_gaussian", 1.0, submissions=submissions, counter="none")
    assert model.build(GradientLayout(dimension=4), 30, STREAMS).planned_certificate("x").verdict == "holds"


@pytest.mark.parametrize("model", [CountPrivacy("ldp", 1e-4, 1e-6, mechanism=name) for name in ("laplace", "auto")])
def test_laws_without_a_scale_for_the_budget_are_passed_over(model: CountPrivacy) -> None:
    made = model.build(FIT_FAMILIES, 9, Streams(0, "exact", NoiseConfig("exact", "seed")))
    best = made.planned_certificate("x").to_dict()["best_available"]
    assert best["ratio"] >= 1.0
