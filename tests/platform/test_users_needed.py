"""The number of users that a finite MDP needs, between measurements."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dprl.platform.errors import UserError
from dprl.platform.users_needed import users_needed


def test_measured_sizes_have_the_measured_number(root: Path) -> None:
    measured = pd.read_csv(root / "platform" / "users_needed.csv")
    assert len(measured) == 96
    for row in measured.to_dict("records")[::7]:
        users = row.pop("users")
        assert users_needed(**{str(key): value for key, value in row.items()}) == users


def test_between_two_measurements_logarithms_are_linear() -> None:
    ends = [users_needed(n_states, 8, 20, 1.0, "ldp") for n_states in (10, 40)]
    middle = users_needed(20, 8, 20, 1.0, "ldp")
    below, above = users_needed(14, 8, 20, 1.0, "ldp"), users_needed(28, 8, 20, 1.0, "ldp")
    assert ends[0] < below < middle < above < ends[1]
    assert users_needed(20, 4, 20, 1.0, "ldp") == pytest.approx((users_needed(20, 2, 20, 1.0, "ldp") * middle) ** 0.5)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"n_states": 100}, "n_states: must be from 5 to 40, as measured, got 100; run bernstein_vi on such"),
        ({"epsilon": 0.5}, "epsilon: must be from 1 to 10, as measured, got 0.5;"),
        ({"model": "shuffle"}, "model: must be jdp or ldp, got 'shuffle'; choose one"),
    ],
)
def test_nothing_is_extrapolated(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError) as caught:
        users_needed(**{"n_states": 10, "n_actions": 4, "horizon": 10, "epsilon": 1.0, **changes})
    assert str(caught.value).startswith(told)
