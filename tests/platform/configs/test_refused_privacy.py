"""Settings of privacy that do not fit together are refused in one line, before anything runs."""

from __future__ import annotations

from typing import Any

import pytest

from dprl.platform.configs.experiment import read_experiment
from dprl.platform.errors import UserError

TABULAR: dict[str, Any] = {
    "name": "refused",
    "algorithm": {"name": "private_ucb_vi"},
    "env": {"name": "riverswim", "n_states": 3, "horizon": 3},
    "episodes": 100,
    "seeds": 1,
}
AGENTS: dict[str, Any] = {
    "name": "refused",
    "algorithm": {"name": "ma_ldp"},
    "env": {"name": "network_mdp"},
    "episodes": 100,
    "seeds": 1,
}
EXACT = {"arithmetic": "exact"}


@pytest.mark.parametrize(
    ("base", "privacy", "changes", "message"),
    [
        (TABULAR, {"model": "jdp", "mechanism": "gaussian"}, {}, "Gaussian noise needs a delta above 0"),
        (
            TABULAR,
            {"model": "jdp", "calibration": "printed", "counter": "kary_tree"},
            {},
            "the papers print a scale for binary_tree with laplace only",
        ),
        (
            TABULAR,
            {"model": "ldp", "calibration": "printed", "mechanism": "discrete_laplace"},
            {},
            "the papers print a scale for laplace only",
        ),
        (TABULAR, {"model": "ldp", "calibration": "printed"}, {"noise": EXACT}, "papers print real numbers"),
        (
            TABULAR,
            {"model": "ldp", "calibration": "printed", "families": "one_hot"},
            {},
            "must be separate with the printed calibration",
        ),
        (AGENTS, {"model": "ldp", "rewards": "public", "reward_share": 0.3}, {}, "only noisy ones have one"),
    ],
)
def test_settings_that_do_not_fit_are_refused(
    base: dict[str, Any], privacy: dict[str, Any], changes: dict[str, Any], message: str
) -> None:
    with pytest.raises((ValueError, UserError), match=message) as caught:
        read_experiment(base | {"privacy": {"epsilon": 1.0} | privacy} | changes).certificate()
    assert "\n" not in str(caught.value)
