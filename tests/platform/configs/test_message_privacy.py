"""The privacy section of a config whose users send statistics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dprl.platform.configs.config import load_cells
from dprl.platform.configs.experiment import labels_of, read_experiment
from dprl.platform.errors import UserError
from dprl.privacy import StatisticsPrivacy
from tests.platform.message_cases import GAUSSIAN, LAPLACE, NO_CLIPS, NONE, PRINTED, cell, raw

RELEASE: dict[str, Any] = {"release": True}


def test_settings_are_those_of_what_is_released(tmp_path: Path) -> None:
    assert cell(GAUSSIAN).privacy == StatisticsPrivacy("ldp", 4.0, 1e-5, "gram_gaussian")
    for original in (cell(LAPLACE), cell(NONE), cell(PRINTED)):
        (tmp_path / "one.yaml").write_text(original.to_yaml())
        assert load_cells(tmp_path / "one.yaml") == [original]


@pytest.mark.parametrize(
    ("section", "told"),
    [
        (raw(LAPLACE, env={"name": "riverswim"}), "env: must be a linear mixture MDP with"),
        *(
            (raw(privacy) | RELEASE, "release: must be false with algorithm ma_ldp, got True; its noise is proved")
            for privacy in (PRINTED, NONE, LAPLACE, GAUSSIAN)
        ),
    ],
)
def test_what_does_not_fit_is_reported_in_one_line(section: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError) as caught:
        read_experiment(section)
    text = str(caught.value)
    assert "\n" not in text
    assert told in text


def test_words_that_say_nothing_alone_have_their_names() -> None:
    cells = [cell(NO_CLIPS), cell(PRINTED), cell(NO_CLIPS | {"clipping": "device"}), cell(LAPLACE)]
    labels = labels_of(cells)
    assert labels[:2] == ["printed clipping=auto rewards=public", "printed clipping=auto rewards=auto"]
    assert len(set(labels)) == len(cells)
