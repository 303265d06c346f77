"""An example episode of a learned policy, drawn step by step."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dprl.envs import CartPoleGravityEnv
from dprl.envs.cartpole_dynamics import ANGLE_LIMIT, POSITION_LIMIT
from dprl.platform.configs.experiment import Experiment
from dprl.platform.errors import counted
from dprl.platform.policies.actor_critic import ActorCriticPolicy
from dprl.platform.reports.figures.colours import BLUE, VERMILION
from dprl.platform.reports.figures.styles import render

_WIDTH, _HEIGHT = 6.6, 5.2
"""Size in inches."""
_LIMIT = {"color": VERMILION.line, "ls": (0, (5, 2)), "lw": 1.0}
_MARGIN = 1.15
"""Ratio of the axes' ends to the limits."""


class Episode(NamedTuple):
    """An episode of a cart and its pole.

    gravity: in m/s^2. states: float64 [T + 1, 4], position (m), velocity, angle (rad) and angular velocity. actions:
    int64 [T]. fallen: whether it ended early.
    """

    gravity: float
    states: np.ndarray
    actions: np.ndarray
    fallen: bool


def play(policy: ActorCriticPolicy, seed: int) -> Episode:
    """Return the episode whose start and gravity are drawn from `seed`."""
    env = CartPoleGravityEnv(**policy.env_settings)
    state, _ = env.reset(seed=seed)
    states, actions, terminated, ended = [state], [], False, False
    while not ended:
        action = int(policy(state))
        state, _, terminated, truncated, _ = env.step(action)
        states.append(state)
        actions.append(action)
        ended = terminated or truncated
    return Episode(env.gravity, np.array(states, dtype=np.float64), np.array(actions), terminated)


def episode_figure(parameters: np.ndarray, experiment: Experiment) -> bytes:
    """Draw position, angle and actions over the steps of an episode of the policy of the first seed; return a PNG.

    parameters: of the policy, see ActorCriticPolicy; it takes the most likely action, without exploration.
    """
    policy = ActorCriticPolicy(parameters, experiment.env)  # type: ignore[arg-type]  # checked by callers
    episode = play(policy, experiment.seed)
    figure = Figure(figsize=(_WIDTH, _HEIGHT), layout="constrained")
    position, angle, action = figure.subplots(3, 1, sharex=True, height_ratios=(3, 3, 1))
    _draw_state(position, episode.states[:, 0], POSITION_LIMIT, "cart (m)")
    _draw_state(angle, np.degrees(episode.states[:, 2]), math.degrees(ANGLE_LIMIT), "pole (degrees)")
    action.step(np.arange(len(episode.actions)), episode.actions, where="post", color=BLUE.line, lw=0.8)
    action.set_yticks([0, 1], ["left", "right"])
    action.set_ylim(-0.3, 1.3)
    action.set_ylabel("push")
    action.set_xlabel("step")
    steps = counted(len(episode.actions), "step")
    ended = f"lost after {steps}" if episode.fallen else f"still up after {steps}"
    about = f"An episode of the policy of seed {experiment.seed}, gravity {episode.gravity:.4g} m/s\u00b2: {ended}"
    setting = f"{experiment.algorithm.name} on {experiment.env.name}, without exploration"
    figure.suptitle(f"{about}\n{setting}", fontsize=10)
    return render(figure, "png")


def _draw_state(axes: Axes, values: np.ndarray, limit: float, label: str) -> None:
    """Draw a number over the steps, between the limits of a lost episode."""
    axes.plot(values, color=BLUE.line)
    for end in (-limit, limit):
        axes.axhline(end, **_LIMIT)  # type: ignore[arg-type]  # a dash pattern is a tuple
    reach = max(limit * _MARGIN, float(np.abs(values).max()) * _MARGIN)
    axes.set_ylim(-reach, reach)
    axes.set_ylabel(label)
    axes.grid(alpha=0.3)
