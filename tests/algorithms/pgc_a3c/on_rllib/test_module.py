"""The default module: the network of the paper, the order of its parameters, and unsupported uses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from dprl.algorithms.pgc.on_rllib.parameters import n_parameters, read_parameters, write_parameters
from dprl.algorithms.pgc_a3c.on_rllib.module import ActorCriticModule
from tests.algorithms.pgc_a3c.cases import forward

FOUR = spaces.Box(-1.0, 1.0, (4,), np.float32)
THETA = np.random.default_rng(1).normal(size=112)
STATES = np.random.default_rng(2).normal(size=(7, 4))


def module(**config: Any) -> ActorCriticModule:
    return ActorCriticModule(observation_space=FOUR, action_space=spaces.Discrete(2), model_config=config)


def test_it_has_the_papers_layers_in_the_order_of_theta() -> None:
    shapes = [(name, tuple(parameter.shape)) for name, parameter in module().named_parameters()]
    assert shapes == [("c.weight", (16, 4)), ("p.weight", (2, 16)), ("v.weight", (1, 16))]
    assert n_parameters(module()) == 112


def test_it_computes_what_the_compiled_network_computes() -> None:
    net = module(parameters=THETA).double()
    write_parameters(net, THETA)
    batch = {"obs": torch.as_tensor(STATES)}
    logits = net.forward_inference(batch)["action_dist_inputs"].numpy()
    values = net.compute_values(batch).detach().numpy()
    expected = np.array([forward(THETA, state) for state in STATES])
    np.testing.assert_allclose(logits[:, 1] - logits[:, 0], expected[:, 0], rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(values, expected[:, 1], rtol=1e-12, atol=1e-13)


def test_embeddings_spare_the_first_layer() -> None:
    net, batch = module(parameters=THETA), {"obs": torch.as_tensor(STATES, dtype=torch.float32)}
    shared = net.forward_train(batch)["embeddings"]
    assert torch.equal(net.compute_values({}, embeddings=shared), net.compute_values(batch))


def test_parameters_are_written_and_read_back() -> None:
    net = module().double()
    write_parameters(net, THETA)
    assert np.array_equal(read_parameters(net), THETA)
    # By default rounded to float32.
    assert np.array_equal(read_parameters(module(parameters=THETA)), THETA.astype(np.float32))


@pytest.mark.parametrize(("shape", "outputs"), [((3,), 6), ((2, 3), 12), ((), 2)])
def test_box_actions_have_means_and_deviations(shape: tuple[int, ...], outputs: int) -> None:
    net = ActorCriticModule(
        observation_space=FOUR, action_space=spaces.Box(-1.0, 1.0, shape), model_config={"hidden": 5}
    )
    assert net.forward_inference({"obs": torch.zeros(2, 4)})["action_dist_inputs"].shape == (2, outputs)


def test_other_parameters_than_it_has_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^parameters must be float64\[112\] .* got shape \(111,\)"):
        module(parameters=THETA[1:])
