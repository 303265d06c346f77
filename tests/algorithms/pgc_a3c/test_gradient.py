"""The gradient of every reading of eq. (15), against torch's derivative of the formulas as they are written."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch

from dprl.algorithms.pgc_a3c.algorithm import PGCA3CConfig
from dprl.algorithms.pgc_a3c.gradient import (
    ACTION,
    TRACE,
    LossTables,
    columns,
    look,
    loss_tables,
    write_gradient,
)
from dprl.algorithms.pgc_a3c.network import DIMENSION, INPUTS, POLICY, UNITS, VALUE
from tests.algorithms.pgc_a3c.cases import gradient_of, loss_of

HORIZON = 21
READINGS = [
    loss_of(0.99, 0.5, 0.01, reward, bootstrap, differentiate)
    for reward, bootstrap, differentiate in itertools.product(
        ("literal", "terminal"), ("discounted", "printed", "none"), (False, True)
    )
]
DEFAULT = loss_of(0.99, 0.5, 0.01, "terminal", "discounted", False)


def episode(steps: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return theta, states [T + 1, 4] and actions [T]."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=DIMENSION), rng.normal(size=(steps + 1, INPUTS)), rng.integers(0, 2, steps)


def written(tables: LossTables, theta: np.ndarray, states: np.ndarray, actions: np.ndarray, padded: bool) -> np.ndarray:
    if not padded:
        return gradient_of(states, actions, theta, tables)
    trace, out = np.zeros((TRACE, columns(HORIZON))), np.full(DIMENSION, np.nan)
    # The state after the last step, with a fallen pole.
    trace[:INPUTS] = states[-1][:, None]
    trace[:INPUTS, : len(states)], trace[ACTION, : len(actions)] = states.T, actions
    for t in range(HORIZON):
        look(trace, t, theta)
    write_gradient(out, theta, trace, len(actions), tables, True)
    return out


def by_torch(
    loss: PGCA3CConfig, horizon: int, theta: np.ndarray, states: np.ndarray, actions: np.ndarray
) -> np.ndarray:
    """Differentiate eqs. (12) and (15)-(18), written down as sums."""
    parameters = torch.tensor(theta, requires_grad=True)
    c, p = parameters[:POLICY].view(UNITS, INPUTS), parameters[POLICY:VALUE].view(2, UNITS)
    hidden = torch.relu(torch.from_numpy(states) @ c.T)
    log_policy, values = torch.log_softmax(hidden @ p.T, -1), hidden @ parameters[VALUE:]
    steps = len(actions)
    rewards = [1.0] * steps
    if loss.reward == "terminal":
        rewards = [0.0] * (steps - 1) + [1.0 if steps == horizon else -1.0]
    total = torch.zeros((), dtype=torch.float64)
    for t in range(steps):
        gained = sum(loss.discount ** (j - t) * rewards[j] for j in range(t, steps))
        discounted = loss.discount ** (steps - t) * values[steps]
        advantage = gained + (0.0 if loss.bootstrap == "none" else discounted) - values[t]
        target = gained + {"none": 0.0 * discounted, "discounted": discounted, "printed": values[steps]}[loss.bootstrap]
        if not loss.differentiate:
            advantage, target = advantage.detach(), target.detach()
        entropy = -(log_policy[t].exp() * log_policy[t]).sum()
        total = total - log_policy[t, actions[t]] * advantage - loss.entropy_weight * entropy
        total = total + loss.value_weight * (target - values[t]) ** 2
    total.backward()  # type: ignore[no-untyped-call]
    assert parameters.grad is not None
    return parameters.grad.numpy()


@pytest.mark.parametrize("loss", READINGS, ids=lambda loss: f"{loss.reward}-{loss.bootstrap}-{loss.differentiate}")
@pytest.mark.parametrize("steps", [1, 2, 7, 8, 15, 20, HORIZON])
def test_the_gradient_is_that_of_the_formulas(loss: PGCA3CConfig, steps: int) -> None:
    tables = loss_tables(loss, HORIZON)
    for seed in range(3):
        theta, states, actions = episode(steps, seed)
        expected = by_torch(loss, HORIZON, theta, states, actions)
        ours = written(tables, theta, states, actions, padded=False)
        np.testing.assert_allclose(ours, expected, rtol=1e-10, atol=1e-10 * np.abs(expected).max())


def test_all_readings_differ_where_episodes_do_not_tell_them_apart_by_chance() -> None:
    theta, states, actions = episode(9, 0)
    found = [written(loss_tables(loss, HORIZON), theta, states, actions, padded=False) for loss in READINGS]
    for first, second in itertools.combinations(found, 2):
        assert np.abs(first - second).max() > 1e-3


def test_other_weights_and_discounts() -> None:
    theta, states, actions = episode(13, 5)
    for loss in (
        replace(DEFAULT, discount=1.0),
        replace(DEFAULT, value_weight=0.0),
        replace(DEFAULT, entropy_weight=2.0),
    ):
        expected = by_torch(loss, HORIZON, theta, states, actions)
        ours = written(loss_tables(loss, HORIZON), theta, states, actions, padded=False)
        np.testing.assert_allclose(ours, expected, rtol=1e-10, atol=1e-10 * np.abs(expected).max())


@pytest.mark.parametrize("loss", [DEFAULT, READINGS[3]], ids=["constants", "differentiated"])
@pytest.mark.parametrize("steps", [1, 8, 12, HORIZON])
@pytest.mark.parametrize("scale", [1.0, 1e200])
def test_padding_leaves_every_bit(loss: PGCA3CConfig, steps: int, scale: float) -> None:
    theta, states, actions = episode(steps, 1)
    tables = loss_tables(loss, HORIZON)
    plain, padded = (written(tables, scale * theta, states, actions, padded) for padded in (False, True))
    assert plain.tobytes() == padded.tobytes()


def test_an_episode_leaves_nothing_for_the_next() -> None:
    tables = loss_tables(DEFAULT, HORIZON)
    long, short = episode(HORIZON, 2), episode(5, 3)
    alone = written(loss_tables(DEFAULT, HORIZON), *short, padded=False)
    written(tables, *long, padded=False)
    assert written(tables, *short, padded=False).tobytes() == alone.tobytes()


@pytest.mark.parametrize("value", [1e160, np.inf, np.nan])
def test_numbers_that_overflow_raise_nothing(value: float) -> None:
    _, states, actions = episode(10, 4)
    with np.errstate(all="ignore"):
        ours = written(loss_tables(DEFAULT, HORIZON), np.full(DIMENSION, value), states, actions, padded=False)
    assert not np.isfinite(ours).all()
