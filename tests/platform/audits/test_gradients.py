"""`dprl audit` of a cell with gradients attacks the cell's own mechanism."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from dprl.platform import audits
from dprl.platform.audits import audit_experiment, claim_of
from dprl.platform.reports.audits import block
from dprl.privacy.audits import message_probes
from dprl.privacy.audits.privatizer_probes import counter_prefixes
from tests.platform.gradient_cases import LDP, SIGNS, cell

pytestmark = pytest.mark.usefixtures("walking")


@pytest.mark.parametrize(
    "privacy",
    [LDP, SIGNS, {"model": "ldp", "epsilon": 2.0, "mechanism": "clipped_laplace"}],
    ids=lambda settings: settings["mechanism"],
)
def test_a_certified_cell_is_not_refuted_and_something_is_measured(privacy: dict[str, Any]) -> None:
    (attack,) = audit_experiment(cell(privacy), 40_000)
    assert attack.verdict == "not refuted"
    assert attack.white_box == "holds"
    assert attack.measurement is not None
    assert privacy["epsilon"] / 4 < attack.measurement.epsilon_lb < privacy["epsilon"]
    assert "NOT REFUTED" in block("one", [attack])


def test_all_submissions_of_an_agent_are_attacked_together() -> None:
    """Each of two submissions has half of epsilon; together they reveal more than one could.

    The mechanism attains its epsilon, so one seed in forty measures more than is true; this one is not of those.
    """
    (attack,) = audit_experiment(cell(SIGNS | {"submissions": 2, "epsilon": 4.0}), 40_000, seed=1)
    assert attack.measurement is not None
    assert attack.measurement.probe.startswith("2 submissions of ")
    assert 2.0 < attack.measurement.epsilon_lb < 4.0
    assert "2 submissions an agent" in attack.subject


@pytest.mark.parametrize(
    "settings",
    [
        {"mechanism": "clipped_laplace"},
        {"mechanism": "clipped_gaussian", "delta": 1e-5, "counter": "none"},
        {"mechanism": "clipped_gaussian", "delta": 1e-5, "sampling": "poisson", "population": 12},
    ],
    ids=["laplace", "gaussian", "poisson"],
)
@pytest.mark.parametrize("less", [False, True], ids=["all the noise", "1/4 of it"])
def test_the_noise_of_a_trusted_server_is_attacked_where_it_is_drawn(
    settings: dict[str, Any], less: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sums are those of the server's own release, which has weaker noise here."""
    release = message_probes._release_all

    def weaker(sums: Any, vector: Any, noise: Any, present: Any) -> None:
        release(sums, vector, noise._replace(noise=noise.noise._replace(scale=noise.noise.scale / 4.0)), present)

    if less:
        monkeypatch.setattr(message_probes, "_release_all", weaker)
    changes: dict[str, Any] = {"algorithm": {"name": "pgc_a3c", "buffer_size": 10}, "episodes": 300}
    if "population" in settings:
        changes = {"algorithm": {"name": "dppg", "users_per_update": 6, "hidden": "4"}, "episodes": 42}
        changes["env"] = {"name": "control", "horizon": 20}
    (attack,) = audit_experiment(cell({"model": "jdp", "epsilon": 2.0, **settings}, **changes), 40_000)
    assert attack.verdict == ("refuted" if less else "not refuted")
    assert attack.measurement is not None
    assert attack.measurement.epsilon_lb > 0.3


@pytest.mark.parametrize("arithmetic", ["fast", "exact"])
@pytest.mark.parametrize("less", [False, True], ids=["all the noise", "1/3 of it"])
def test_running_sums_of_a_counter_are_attacked_together(
    arithmetic: str, less: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"model": "jdp", "epsilon": 2.0, "delta": 1e-5, "mechanism": "clipped_gaussian", "counter": "kary_tree"}
    if less:
        monkeypatch.setattr(
            audits, "counter_prefixes", lambda counter, *more: counter_prefixes(_louder(counter), *more)
        )
    changes: dict[str, Any] = {"algorithm": {"name": "pgc_a3c", "buffer_size": 10}, "noise": {"arithmetic": arithmetic}}
    (attack,) = audit_experiment(cell(settings, episodes=300, **changes), 40_000)
    assert attack.verdict == ("refuted" if less else "not refuted")
    assert attack.measurement is not None
    assert attack.measurement.epsilon_lb > 0.5


def _louder(counter: Any) -> Any:
    return dataclasses.replace(counter, node=type(counter.node)(counter.node.scale / 3.0))


def test_a_claim_that_is_too_small_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audits, "claim_of", lambda made: dataclasses.replace(claim_of(made), epsilon=0.5))
    (attack,) = audit_experiment(cell(SIGNS), 40_000)
    assert attack.verdict == "refuted"
