"""Q of joint actions with more agents than actions, against every joint action by itself."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from dprl.algorithms.ma_ldp.planning import _Scratch, fill_forms, fill_worst, fill_worst_of_two, padded, plain_q
from dprl.envs.network_mdp.base import action_vectors


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_worst_and_best_cases_are_those_of_all_joint_actions(n: int) -> None:
    """Two actions each, so n > A but for one agent and for the paper's two, who have a loop of their own."""
    rng, actions, width = np.random.default_rng(n), action_vectors(2), padded(5)
    theta, root = rng.normal(size=2 * n), rng.normal(size=(2 * n, 2 * n))
    inverse, beta, cap, floor = root @ root.T, 0.3, 2.0, -1.0
    features = rng.normal(size=(n, width)), rng.normal(size=(n, width)), rng.normal(size=width)
    found = _Scratch.empty(n, 2, 1, width)
    assert found.digits.size == n, "the kernel would write beyond its end"
    fill_forms(actions, theta, inverse, found)
    cut = (fill_worst_of_two if n == 2 else fill_worst)(found, *features, beta, cap, floor, 0, n, True)
    q = plain_q(actions, theta, inverse, *features, beta)
    assert cut == sum(int((each >= cap).sum()) for each in q.values())
    q = {joint: np.clip(each, floor, cap) for joint, each in q.items()}
    for i, a in product(range(n), range(2)):
        least = np.min([each for joint, each in q.items() if joint[i] == a], axis=0)
        np.testing.assert_allclose(found.least[i, a], least, atol=1e-12)
    np.testing.assert_allclose(found.most, np.max(list(q.values()), axis=0), atol=1e-12)
