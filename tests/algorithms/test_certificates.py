"""Certificates of every algorithm's counts: recommended noise can be run, and games protect pairs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dprl.algorithms import ALGORITHMS
from dprl.envs import RandomGame
from dprl.privacy import CountPrivacy, Streams
from tests.algorithms.cases import TABULAR
from tests.grids import paired

EPISODES = 50
REQUESTS: list[Any] = [
    CountPrivacy("jdp", 1.0),
    CountPrivacy("ldp", 1.0),
    CountPrivacy("jdp", 1.0, 1e-6),
    CountPrivacy("ldp", 1.0, 1e-6),
]


def certificate(name: str, env: Any, privacy: Any, episodes: int = EPISODES) -> dict[str, Any]:
    """The planned certificate of a run."""
    privatizer = ALGORITHMS[name]().privatizer(env, privacy, episodes, Streams(0, "certificates"))
    found: dict[str, Any] = privatizer.planned_certificate(name).to_dict()
    return found


@paired(name=TABULAR, request_=REQUESTS, families=["separate", "one_hot"])
def test_what_a_certificate_recommends_runs_and_is_as_good(request_: Any, families: str, name: str, envs: Any) -> None:
    asked = replace(request_, families=families)
    best = certificate(name, envs.small, asked)["best_available"]
    settings = {key: best[key] for key in ("counter", "mechanism", "families") if key in best}
    recommended = certificate(name, envs.small, replace(request_, **settings))
    assert recommended["best_available"]["ratio"] == pytest.approx(1.0, abs=1e-9)
    assert recommended["verdict"] == "holds"


def game(horizon: int = 5) -> Any:
    """A game of [QW24]'s kind."""
    return RandomGame(n_states=2, n_max_actions=2, n_min_actions=2, horizon=horizon).build()


def test_printed_noise_of_games_proves_what_the_specification_says() -> None:
    central = certificate("dp_nash_vi", game(), CountPrivacy("jdp", 1.0, calibration="printed"), 1000)
    local = certificate("dp_nash_vi", game(), CountPrivacy("ldp", 1.0, calibration="printed"), 1000)
    assert central["claimed"]["source"] == "[QW24] Lemma 5.1"
    assert central["proved"]["pure_epsilon"] == pytest.approx(2.8953, abs=5e-5)
    assert central["proved"]["epsilon_at_delta"]["1e-06"] == pytest.approx(0.8468, abs=1e-4)
    assert central["verdict"] == "holds_approximately"
    assert local["claimed"]["source"] == "[QW24] Lemma 5.4"
    assert local["proved"]["pure_epsilon"] == pytest.approx(2.0, rel=1e-12)
    assert local["verdict"] == "fails"


@pytest.mark.parametrize(("model", "lemma"), [("jdp", "5.1"), ("ldp", "5.4")])
@pytest.mark.parametrize("calibration", ["certified", "printed"])
@pytest.mark.parametrize("name", ["dp_nash_vi", "dp_ucbvi"])
def test_an_error_bound_without_a_constant_is_refused(
    name: str, calibration: str, model: Any, lemma: str, environments: Any
) -> None:
    with pytest.raises(
        ValueError, match=rf"^precision must be exact here, got printed; \[QW24\] Lemma {lemma}"
    ) as caught:
        certificate(
            name,
            environments[ALGORITHMS[name].plays].small,
            CountPrivacy(model, 1.0, calibration=calibration, precision="printed"),  # type: ignore[arg-type]
        )
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("model", ["jdp", "ldp"])
def test_a_game_protects_pairs_and_says_so(model: Any, environments: Any) -> None:
    of_game = certificate("dp_nash_vi", game(), CountPrivacy(model, 1.0))
    of_mdp = certificate("dp_ucbvi", environments[ALGORITHMS["dp_ucbvi"].plays].small, CountPrivacy(model, 1.0))
    assert "the 2 players of an episode together" in of_game["unit"]
    assert any("each other" in channel for channel in of_game["excluded_channels"])
    assert "players" not in of_mdp["unit"]
