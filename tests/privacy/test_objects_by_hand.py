"""Objects made by hand in one process: what a second reader used to run noise other than the certificate's."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

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
    StatisticsLayout,
    StatisticsPrivacy,
    Streams,
    SubmissionRange,
)
from dprl.privacy.counters import BinaryTree
from dprl.privacy.journal import ChargeJournal
from dprl.privacy.ledger import Ledger
from dprl.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from dprl.privacy.privatizer import Privatizer

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


def gradients(
    model: str = "ldp", n: int = 50, window: int = 1, entropy: Literal["seed", "os"] = "seed"
) -> Privatizer[Any]:
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
