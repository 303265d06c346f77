"""The network of 112 parameters and the gradient of every reading of eq. (15), against torch."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from dprl.algorithms.pgc_a3c.algorithm import PGCA3CConfig
from dprl.algorithms.pgc_a3c.gradient import ACTION, TRACE, LossTables, columns, look, loss_tables, write_gradient
from dprl.algorithms.pgc_a3c.network import (
    DIMENSION,
    INPUTS,
    POLICY,
    UNITS,
    VALUE,
    initial_parameters,
    probability_of_right,
)
from dprl.privacy import Streams
from tests.algorithms.pgc_a3c.cases import forward, gradient_of, loss_of

# The gradient of every reading of eq. (15), against torch's derivative of the formulas as they are written.

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
    unweighted, strong = replace(DEFAULT, value_weight=0.0), replace(DEFAULT, entropy_weight=2.0)
    for loss in (replace(DEFAULT, discount=1.0), unweighted, strong):
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


# The network of 112 parameters, against torch and numpy.

KEY = Streams(3, "test").key("env", "theta")
# P(|Z| > 5) < 6e-7 for each of the few statistics below.
SIGMAS = 5.0


def modules() -> tuple[torch.nn.Linear, torch.nn.Linear, torch.nn.Linear]:
    sizes = ((4, 16), (16, 2), (16, 1))
    c, p, v = (torch.nn.Linear(*size, bias=False, dtype=torch.float64) for size in sizes)
    return c, p, v


def test_theta_is_the_order_of_torch_parameters() -> None:
    network = torch.nn.ModuleList(modules())
    sizes = [parameter.numel() for parameter in network.parameters()]
    assert [0, *np.cumsum(sizes)] == [0, POLICY, VALUE, DIMENSION]


def test_forward_is_that_of_torch() -> None:
    rng = np.random.default_rng(0)
    c, p, v = modules()
    for _ in range(20):
        theta, state = rng.normal(size=DIMENSION), rng.normal(size=4)
        torch.nn.utils.vector_to_parameters(torch.from_numpy(theta), [c.weight, p.weight, v.weight])
        hidden = torch.relu(c(torch.from_numpy(state)))
        logits, value = p(hidden).detach().numpy(), float(v(hidden).item())
        assert forward(theta, state) == pytest.approx((logits[1] - logits[0], value), rel=1e-12, abs=1e-12)


def test_probability_is_that_of_the_softmax() -> None:
    for d in (-800.0, -30.0, -1.0, -1e-9, 0.0, 0.3, 5.0, 800.0):
        expected = torch.softmax(torch.tensor([0.0, d], dtype=torch.float64), 0)[1].item()
        assert probability_of_right(d) == pytest.approx(expected, rel=1e-14, abs=1e-300)


def test_glorot_fills_the_box_of_every_layer() -> None:
    draws = np.array([initial_parameters("glorot", 1.0, Streams(s, "t").key("env", "theta")) for s in range(300)])
    layers = ((slice(0, POLICY), 20), (slice(POLICY, VALUE), 18), (slice(VALUE, DIMENSION), 17))
    for part, fan in layers:
        values, limit = draws[:, part].ravel() / math.sqrt(6.0 / fan), 1.0
        assert 0.999 < np.abs(values).max() < limit
        assert abs(values.mean()) < SIGMAS / math.sqrt(3.0 * values.size)
        assert abs((values**2).mean() - 1 / 3) < SIGMAS * math.sqrt(4 / 45 / values.size)


def test_normal_has_its_standard_deviation() -> None:
    draws = np.concatenate([initial_parameters("normal", 0.1, Streams(s, "t").key("env")) for s in range(300)]) / 0.1
    assert abs(draws.mean()) < SIGMAS / math.sqrt(draws.size)
    assert abs((draws**2).mean() - 1.0) < SIGMAS * math.sqrt(2.0 / draws.size)
    assert abs((draws**4).mean() - 3.0) < SIGMAS * math.sqrt(96.0 / draws.size)


def test_parameters_are_a_function_of_the_key_and_scale() -> None:
    first, again = initial_parameters("normal", 0.1, KEY), initial_parameters("normal", 0.1, KEY)
    assert first.shape == (DIMENSION,)
    np.testing.assert_array_equal(first, again)
    np.testing.assert_allclose(initial_parameters("glorot", 2.0, KEY), 2.0 * initial_parameters("glorot", 1.0, KEY))
    assert (first != initial_parameters("normal", 0.1, Streams(4, "test").key("env", "theta"))).all()
