"""The privacy section of a config has the kind that fits the releases of its algorithm's users."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dprl.platform.configs.config import load_cells
from dprl.platform.configs.experiment import read_experiment, varies
from dprl.platform.errors import UserError
from dprl.privacy import GradientPrivacy
from tests.platform.gradient_cases import LDP, NONE, SIGNS, cell, raw

COUNTS: dict[str, Any] = {"algorithm": {"name": "private_ucb_vi"}, "env": {"name": "riverswim"}}
pytestmark = pytest.mark.usefixtures("walking")


def test_settings_are_those_of_gradients() -> None:
    one = cell(LDP)
    assert one.privacy == GradientPrivacy("ldp", 5.0, mechanism="privunit")
    parameters = one.parameters()
    assert parameters["privacy.mechanism"] == "privunit"
    assert "privacy.clip" not in parameters  # the paper's
    assert one.certificate().proved_epsilon == pytest.approx(5.0)


def test_a_cell_written_as_yaml_is_the_same_cell(tmp_path: Path) -> None:
    for original in (cell(LDP), cell(NONE), cell(SIGNS | {"clip": 0.5})):
        (tmp_path / "one.yaml").write_text(original.to_yaml())
        assert load_cells(tmp_path / "one.yaml") == [original]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"privacy": LDP | {"counter": "binary_tree"}},
            "privacy.counter: does not belong to model ldp, got 'binary_tree'; remove it, or choose model: jdp",
        ),
        (COUNTS | {"privacy": LDP}, "privacy.mechanism: must be one of "),
        (
            COUNTS | {"privacy": {"model": "ldp", "epsilon": 1.0, "release_scores": "none"}},
            ("privacy.release_scores: unknown key; valid: "),
        ),
        (
            {"env": {"name": "riverswim"}},
            (
                "env: must be a control task with algorithm walking, got riverswim, a finite MDP; "
                "choose env cartpole_gravity"
            ),
        ),
        (
            {"release": True},
            (
                "release: must be false with release_scores: simulator, got True; "
                "no simulator knows what real users did: write release_scores: none"
            ),
        ),
        (
            {"release": True, "privacy": LDP | {"mechanism": "privunit", "release_scores": "none"}},
            "release: must be false with mechanism privunit, got True; its guarantee is for real numbers: write",
        ),
        (
            {"release": True, "privacy": NONE},
            "release: must be false with model none, got True; choose model jdp or ldp",
        ),
    ],
)
def test_what_does_not_fit_is_reported_in_one_line(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError) as caught:
        read_experiment(raw(LDP) | changes)
    text = str(caught.value)
    assert "\n" not in text
    assert told in text


def test_a_key_is_compared_among_the_cells_that_can_have_it() -> None:
    scales: list[dict[str, Any]] = [{"algorithm.name": "pucb", "algorithm.scale": scale} for scale in (1.0, 0.5)]
    assert not varies("algorithm.scale", [scales[0], {"algorithm.name": "other"}])
    assert varies("algorithm.scale", [*scales, {"algorithm.name": "other"}])
