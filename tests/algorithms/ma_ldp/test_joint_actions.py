"""Q of joint actions with more agents than actions, against every joint action by itself; shapes of the workspace."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from dprl.algorithms.ma_ldp.planning import (
    Bounds,
    _Features,
    empty_forms,
    fill_forms,
    fill_worst,
    fill_worst_of_two,
    padded,
    workspace,
)
from dprl.envs.network_mdp.base import action_vectors


@pytest.mark.parametrize(("n", "n_actions"), [(1, 2), (2, 4), (3, 4), (4, 2)])
def test_the_workspace_has_the_shapes_that_its_fields_state(n: int, n_actions: int) -> None:
    width = padded(5)
    rows, worst = workspace(n, n_actions, width, joint=True)
    assert {name: array.shape for name, array in rows._asdict().items()} == {
        "own": (n, n_actions, width),
        "own_square": (n, n_actions, width),
        "products": (n, n, width),
        "sums": (n, width),
        "square": (n, width),
        "bends": (n_actions, width),
        "total": (width,),
    }
    assert (worst.least.shape, worst.most.shape) == ((n, n_actions, width), (width,))
    assert (worst.digits.shape, worst.joint) == ((n,), 1)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_worst_and_best_cases_are_those_of_all_joint_actions(n: int) -> None:
    """Two actions each, so n > A but for one agent and for the paper's two, who have a loop of their own."""
    rng, actions, width = np.random.default_rng(n), action_vectors(2), padded(5)
    theta, root = rng.normal(size=2 * n), rng.normal(size=(2 * n, 2 * n))
    inverse = root @ root.T
    features = _Features(rng.normal(size=(n, width)), rng.normal(size=(n, width)), rng.normal(size=width))
    bounds = Bounds(0.3, 2.0, -1.0)
    rows, worst = workspace(n, 2, width, joint=True)
    assert worst.digits.size == n, "the kernel would write beyond its end"
    forms = empty_forms(n, 2, 1)
    fill_forms(actions, theta, inverse, forms)
    cut = (fill_worst_of_two if n == 2 else fill_worst)(forms, features, bounds, rows, worst, (0, n))

    q = {}
    for joint in product(range(2), repeat=n):
        phi = np.stack([features.slopes * actions[list(joint)], features.levels], axis=1).reshape(2 * n, width)
        bonus = bounds.beta * np.sqrt(np.einsum("is,ij,js->s", phi, inverse, phi))
        q[joint] = features.rewards + theta @ phi + bonus
    assert cut == sum(int((each >= bounds.cap).sum()) for each in q.values())
    q = {joint: np.clip(each, bounds.floor, bounds.cap) for joint, each in q.items()}
    for i, a in product(range(n), range(2)):
        least = np.min([each for joint, each in q.items() if joint[i] == a], axis=0)
        np.testing.assert_allclose(worst.least[i, a], least, atol=1e-12)
    np.testing.assert_allclose(worst.most, np.max(list(q.values()), axis=0), atol=1e-12)
