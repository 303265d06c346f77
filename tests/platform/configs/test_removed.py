"""Each removed key or name is refused in one line that says what to write instead."""

from __future__ import annotations

from typing import Any

import pytest

from dprl.platform.configs.experiment import read_experiment
from dprl.platform.configs.sections import REMOVED
from dprl.platform.errors import UserError

SECTIONS: dict[str, dict[str, Any]] = {
    "algorithm": {"name": "private_ucb_vi"},
    "env": {"name": "riverswim"},
    "privacy": {"model": "jdp", "epsilon": 1.0},
}


@pytest.mark.parametrize("entry", list(REMOVED))
def test_a_removed_name_is_refused_with_what_to_write_instead(entry: str) -> None:
    place, _, value = entry.partition("=")
    section, key = place.split(".")
    raw = {"name": "old", "episodes": 1000, "seeds": 1, **SECTIONS, section: {**SECTIONS[section], key: value or "x"}}
    with pytest.raises(UserError) as refused:
        read_experiment(raw)
    assert str(refused.value).startswith(f"{place}: is no longer supported, got ")
    assert str(refused.value).endswith(REMOVED[entry])


@pytest.mark.parametrize("name", ["private_ucb_vi", "private_ucb_po", "dp_ucbvi", "dp_nash_vi"])
def test_known_transitions_are_refused_where_they_are_gone(name: str) -> None:
    """The key itself remains: another algorithm has it."""
    raw = {
        "name": "old",
        "episodes": 1000,
        "seeds": 1,
        **SECTIONS,
        "algorithm": {"name": name, "known_transitions": True},
    }
    with pytest.raises(UserError, match=rf"known_transitions: does not belong to name {name}, .* bernstein_vi$"):
        read_experiment(raw)
