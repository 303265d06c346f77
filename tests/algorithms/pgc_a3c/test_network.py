"""The network of 112 parameters, against torch and numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from dprl.algorithms.pgc_a3c.network import (
    DIMENSION,
    POLICY,
    VALUE,
    initial_parameters,
    probability_of_right,
)
from dprl.privacy import Streams
from tests.algorithms.pgc_a3c.cases import forward

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
