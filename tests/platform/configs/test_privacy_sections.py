"""The privacy section of a config has the kind that fits the releases of its algorithm's users."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dprl.platform.configs.config import load_cells
from dprl.platform.configs.experiment import labels_of, read_experiment, varies
from dprl.platform.errors import UserError
from dprl.privacy import GradientPrivacy, StatisticsPrivacy
from tests.platform import gradient_cases, message_cases
from tests.platform.gradient_cases import LDP, NONE, SIGNS
from tests.platform.message_cases import GAUSSIAN, LAPLACE, NO_CLIPS, PRINTED

COUNTS: dict[str, Any] = {"algorithm": {"name": "private_ucb_vi"}, "env": {"name": "riverswim"}}
gradients, messages = gradient_cases.cell, message_cases.cell
pytestmark = pytest.mark.usefixtures("walking")


def test_settings_are_those_of_the_releases() -> None:
    one = gradients(LDP)
    assert one.privacy == GradientPrivacy("ldp", 5.0, mechanism="privunit")
    parameters = one.parameters()
    assert parameters["privacy.mechanism"] == "privunit"
    assert "privacy.clip" not in parameters  # the paper's
    assert one.certificate().proved_epsilon == pytest.approx(5.0)
    assert messages(GAUSSIAN).privacy == StatisticsPrivacy("ldp", 4.0, 1e-5, "gram_gaussian")


def test_a_cell_written_as_yaml_is_the_same_cell(tmp_path: Path) -> None:
    cells = [gradients(LDP), gradients(NONE), gradients(SIGNS | {"clip": 0.5})]
    for original in (*cells, messages(LAPLACE), messages(NONE), messages(PRINTED)):
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
            "privacy.release_scores: unknown key; valid: ",
        ),
        (
            {"env": {"name": "riverswim"}},
            "control task with algorithm walking, got riverswim, a finite MDP; choose env cartpole_gravity",
        ),
        (
            {"release": True},
            "with release_scores: simulator, got True; no simulator knows what real users did: write release_scores",
        ),
        (
            {"release": True, "privacy": LDP | {"mechanism": "privunit", "release_scores": "none"}},
            "release: must be false with mechanism privunit, got True; its guarantee is for real numbers: write",
        ),
        (
            {"release": True, "privacy": NONE},
            "release: must be false with model none, got True; choose model jdp or ldp",
        ),
        (message_cases.raw(LAPLACE, env={"name": "riverswim"}), "env: must be a linear mixture MDP with"),
        *(
            (
                message_cases.raw(privacy, release=True),
                "release: must be false with algorithm ma_ldp, got True; its noise is proved",
            )
            for privacy in (PRINTED, NONE, LAPLACE, GAUSSIAN)
        ),
    ],
)
def test_settings_that_do_not_fit_are_reported_in_one_line(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError) as caught:
        read_experiment(gradient_cases.raw(LDP) | changes)
    text = str(caught.value)
    assert "\n" not in text
    assert told in text


def test_a_key_is_compared_among_the_cells_that_can_have_it() -> None:
    scales: list[dict[str, Any]] = [{"algorithm.name": "pucb", "algorithm.scale": scale} for scale in (1.0, 0.5)]
    assert not varies("algorithm.scale", [scales[0], {"algorithm.name": "other"}])
    assert varies("algorithm.scale", [*scales, {"algorithm.name": "other"}])


def test_words_that_say_nothing_alone_have_their_names() -> None:
    cells = [messages(NO_CLIPS), messages(PRINTED), messages(NO_CLIPS | {"clipping": "device"}), messages(LAPLACE)]
    labels = labels_of(cells)
    assert labels[:2] == ["printed clipping=auto rewards=public", "printed clipping=auto rewards=auto"]
    assert len(set(labels)) == len(cells)
