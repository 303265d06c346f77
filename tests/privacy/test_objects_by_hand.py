"""Objects made by hand in one process: what a second reader used to run noise other than the certificate's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dprl.privacy import (
    CountFamilies,
    CountFamily,
    CountPrivacy,
    LedgerError,
    StatisticsLayout,
    StatisticsPrivacy,
    Streams,
)
from dprl.privacy.counters import BinaryTree
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
