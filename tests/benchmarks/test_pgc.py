"""The naive PGC-A3C is the same algorithm: gradients on the same actions, clipping and noise."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.utils import parameters_to_vector

from benchmarks import pgc
from benchmarks.naive_pgc import NaivePGC
from dprl.algorithms.pgc_a3c.agent_batch import GRAVITY, agent_batch, deliver, local_update, tick
from dprl.algorithms.pgc_a3c.gradient import ACTION, loss_tables
from dprl.algorithms.pgc_a3c.network import DIMENSION, INPUTS
from dprl.envs import CartPoleGravity
from dprl.privacy import Streams


def test_both_programs_have_the_same_gradients_on_the_same_actions() -> None:
    task, streams, worst = CartPoleGravity().build(), Streams(1, "agreement"), 0.0
    lanes, tables, gradient = agent_batch(1, task, streams), loss_tables(pgc.LOSS, task.horizon), np.empty(DIMENSION)
    for n in range(1, 5):
        theta = pgc.balancing() if n % 2 else pgc.untrained(Streams(n, "agreement"))
        theirs = NaivePGC(theta, dtype=torch.float64)
        deliver(lanes, 0, theta, n, n, 0.1)
        theirs.env.reset(seed=0)
        theirs.cart.state = lanes.table[0, :INPUTS, 0].copy()  # type: ignore[attr-defined]
        theirs.cart.gravity = lanes.table[0, GRAVITY, 0]  # type: ignore[attr-defined]
        over = False
        while not over:
            logits, value = theirs.look()
            ended = tick(lanes)
            over = theirs.act(int(lanes.table[0, ACTION, 0]), logits, value)
            assert over == bool(ended)
        expected = theirs.gradient().numpy()
        local_update(lanes, 0, tables, gradient)
        worst = max(worst, float(np.abs(gradient - expected).max() / np.abs(expected).max()))
    assert 0.0 < worst < 1e-9


def test_the_naive_program_clips_and_adds_noise() -> None:
    program = NaivePGC(pgc.balancing(), clip=0.01, epsilon=1e12, learning_rate=2.0, dtype=torch.float64)
    before = parameters_to_vector(program.parameters).detach().clone()
    program.update(torch.full((112,), 3.0, dtype=torch.float64))
    step = before - parameters_to_vector(program.parameters).detach()
    assert float(step.abs().sum()) == pytest.approx(2.0 * 0.005, rel=1e-6)
    noisy = NaivePGC(pgc.balancing(), clip=100.0, epsilon=1.0, learning_rate=1.0, dtype=torch.float64)
    noisy.update(torch.zeros(112, dtype=torch.float64))
    moved = before - parameters_to_vector(noisy.parameters).detach()
    # The mean of 112 absolute values of Laplace noise of scale 100: s.d. 9.4, five of them.
    assert 53.0 < float(moved.abs().mean()) < 147.0
