"""Derived fields of certificates of every query: the derivation is recomputed, bounds are those of the ledger."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator
from operator import attrgetter
from typing import Any

import pytest

from dprl.privacy.derivation import SOLVED
from dprl.privacy.mechanisms.gradients import GRID
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


@pytest.mark.parametrize("make", list(privatizers()))
def test_every_step_can_be_computed_again(make: Any) -> None:
    certificate = make().planned_certificate("x")
    found = certificate.to_dict()
    steps = found["derivation"]
    if certificate.request.claimed is None:
        assert steps == []
        return
    assert float(steps[-1]["value"]) == pytest.approx(float(found["factor"]))
    assert float(steps[-2]["value"]) == float(found["proved"]["epsilon_at_claimed_delta"])
    for step in steps:
        module, _, name = step["code"].partition(":")
        attrgetter(name)(importlib.import_module(module))
        assert step["lemma"], step
        if not step["formula"].startswith(SOLVED):
            numbers = {key: float(value) for key, value in step["numbers"].items()}
            value = eval(step["formula"], {"sqrt": math.sqrt, "min": min}, numbers)
            assert value == pytest.approx(float(step["value"]), rel=1e-9), step


@pytest.mark.parametrize("make", list(privatizers()))
def test_every_change_and_loss_is_the_value_of_an_earlier_step(make: Any) -> None:
    certificate = make().planned_certificate("x")
    if any(getattr(release.mechanism, "arithmetic", "") == GRID for release in certificate.releases):
        return  # their scales are in units of the grid
    values: list[float] = []
    for step in certificate.to_dict()["derivation"]:
        for name, value in step["numbers"].items():
            if name.rstrip("_123") in ("change", "loss", "proved", "scale"):
                assert float(value) in [pytest.approx(each, rel=1e-9) for each in values], (step, name)
        values.append(float(step["value"]))


@pytest.mark.parametrize("make", [each for each in privatizers() if str(each.id).startswith("gradients")])
def test_every_value_enters_a_later_step(make: Any) -> None:
    steps = make().planned_certificate("x").to_dict()["derivation"]
    for i, step in enumerate(steps[:-1]):
        later = [float(value) for other in steps[i + 1 :] for value in other["numbers"].values()]
        assert any(math.isclose(float(step["value"]), value, rel_tol=1e-9) for value in later), step


def test_adaptive_steps_name_their_theorem() -> None:
    lemmas = {kind: [step["lemma"] for step in _steps(lambda kind=kind: _privatizer(kind))] for kind in KINDS}
    for kind, found in lemmas.items():
        assert any("Denisov" in lemma for lemma in found) == kind.startswith("jdp"), kind
        assert any("billboard lemma" in lemma for lemma in found) == kind.startswith("jdp"), kind
    repeated = [step for step in _steps(lambda: of_gradients("clipped_laplace")) if "submissions" in step["formula"]]
    assert "Adaptive composition" in repeated[-1]["lemma"]


def _steps(make: Any) -> list[dict[str, Any]]:
    return list(make().planned_certificate("x").to_dict()["derivation"])


@pytest.mark.parametrize("make", list(privatizers()))
def test_bounds_are_those_of_the_ledger(make: Any) -> None:
    privatizer = make()
    found = privatizer.planned_certificate("x").to_dict()
    ledger, users = privatizer.planned_ledger(), found["episodes_per_user"]
    if users is None:
        assert found["derivation"] == []
        return
    assert users["relation"] == found["adjacency"]
    for bound in users["bounds"]:
        one = ledger.epsilon(bound["delta"])
        assert float(bound["epsilon"]) >= one * (1.0 - 1e-9)
        assert float(bound["epsilon"]) == min(float(bound["group"]), float(bound["joint"] or math.inf))
