"""Bounds for people with several episodes, on certificates of every query."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest

from dprl.privacy.certificate import certify
from dprl.privacy.ledger import Ledger
from tests.privacy.conftest import KINDS, _privatizer
from tests.privacy.gradients.test_correlated import privatizer as of_running_sums
from tests.privacy.gradients.test_privatizers import CONFIGS as GRADIENTS
from tests.privacy.gradients.test_privatizers import built as of_gradients
from tests.privacy.gradients.test_sampled import privatizer as of_rounds
from tests.privacy.linear_statistics.test_privatizers import CONFIGS as STATISTICS
from tests.privacy.linear_statistics.test_privatizers import built as of_statistics


def privatizers() -> Iterator[Any]:
    for kind in KINDS:
        yield pytest.param(lambda kind=kind: _privatizer(kind), id=f"counts {kind}")
    for name in GRADIENTS:
        yield pytest.param(lambda name=name: of_gradients(name), id=f"gradients {name}")
    yield pytest.param(of_running_sums, id="gradients in running sums")
    yield pytest.param(lambda: of_rounds(clip=3.0), id="gradients in sampled rounds")
    for name in STATISTICS:
        yield pytest.param(lambda name=name: of_statistics(name), id=f"statistics {name}")


@pytest.mark.parametrize("kind", ["ldp", "jdp, buffered"])
def test_attempts_count_for_people_with_several_episodes(kind: str) -> None:
    made = _privatizer(kind)
    spec = made.design
    twice = Ledger(spec, charges=[spec.n_users, spec.n_users])
    for bound in certify(twice, "x").to_dict()["episodes_per_user"]["bounds"]:
        assert float(bound["epsilon"]) >= twice.epsilon(bound["delta"]) * (1.0 - 1e-9)
        if bound["delta"] == 0.0:
            assert float(bound["epsilon"]) == pytest.approx(bound["episodes"] * twice.curve.pure_epsilon)


@pytest.mark.parametrize("make", list(privatizers()))
def test_bounds_are_those_of_the_ledger(make: Any) -> None:
    privatizer = make()
    found = privatizer.planned_certificate("x").to_dict()
    ledger, users = privatizer.planned_ledger(), found["episodes_per_user"]
    if users is None:
        return
    assert users["relation"] == found["adjacency"]
    for bound in users["bounds"]:
        one = ledger.epsilon(bound["delta"])
        assert float(bound["epsilon"]) >= one * (1.0 - 1e-9)
        assert float(bound["epsilon"]) == min(float(bound["group"]), float(bound["joint"] or math.inf))
