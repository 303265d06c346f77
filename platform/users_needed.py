"""How many users private learning of a finite MDP needs: measured on random MDPs, interpolated between their sizes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from dprl.platform.errors import broken_rule

_KEYS = ["n_states", "n_actions", "horizon", "epsilon"]


def users_needed(n_states: int, n_actions: int, horizon: int, epsilon: float, model: str = "jdp") -> int:
    """Return about how many users `bernstein_vi` needs until its regret per episode is half that of its first policy.

    Linear interpolation in logarithms between measurements on random MDPs (docs/users.md): central privacy at delta
    1e-6, or local privacy. Your environment may need many times more; docs/users.md shows some that do.

    Raises UserError outside of the measured range.

    Examples:
        >>> users_needed(n_states=10, n_actions=8, horizon=20, epsilon=1.0)
        81100
    """
    from scipy.interpolate import RegularGridInterpolator  # noqa: PLC0415 - it takes a moment

    measured = pd.read_csv(Path(__file__).with_suffix(".csv"))
    if model not in {*measured["model"]}:
        raise broken_rule("model", "must be jdp or ldp", model, "choose one")
    measured = measured[measured["model"] == model].sort_values(_KEYS)
    axes = [np.unique(measured[key]) for key in _KEYS]
    point = [n_states, n_actions, horizon, epsilon]
    for key, axis, value in zip(_KEYS, axes, point, strict=True):
        if not axis[0] <= value <= axis[-1]:
            rule = f"must be from {axis[0]:g} to {axis[-1]:g}, as measured"
            raise broken_rule(key, rule, value, "run bernstein_vi on such a random_mdp, and see halved_at")
    logs = np.log(measured["users"].to_numpy(dtype=float)).reshape([len(axis) for axis in axes])
    return round(float(np.exp(RegularGridInterpolator([np.log(axis) for axis in axes], logs)(np.log(point))[0])))
