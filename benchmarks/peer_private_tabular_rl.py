"""The unchanged code of the figures of [CZ22] on our MDPs: github.com/XingyuZhou989/PrivateTabularRL, cloned."""

from __future__ import annotations

from pathlib import Path
from runpy import run_path
from typing import Any

from benchmarks.harness import Blocks, microseconds_per_episode, repeated
from benchmarks.peer_rlberry import ENVIRONMENTS, run_command
from dprl.envs import FiniteMDP

FOLDER = ENVIRONMENTS / "PrivateTabularRL"
URL = "https://github.com/XingyuZhou989/PrivateTabularRL"
COMMIT = "f4d8a66184d2f022b6a37cef62578075d5464922"
AGENTS = {"private_ucb_vi": "UCBVI", "private_ucb_po": "UCBPO"}
SUFFIXES = {"none": "", "jdp": "_JDP", "ldp": "_LDP"}


def _sources(name: str) -> dict[str, Any]:
    """Return the names defined in one file, which is cloned if it is missing."""
    if not (FOLDER / "src").is_dir():
        FOLDER.parent.mkdir(parents=True, exist_ok=True)
        run_command(["git", "clone", "--quiet", URL, str(FOLDER)], 60)
        run_command(["git", "-C", str(FOLDER), "checkout", "--quiet", COMMIT], 60)
    return run_path(str(Path(FOLDER, "src", f"{name}.py")))


def measure(mdp: FiniteMDP, algorithm: str, model: str, start: int, blocks: Blocks) -> float:
    """Return CPU microseconds per episode of their agent from episode `start` on, as in their `run_experiment`."""
    n_states, n_actions = mdp.rewards.shape[1:]
    env = _sources("environment")["TabularMDP"](n_states, n_actions, mdp.horizon)
    env.R = {(s, a): (mdp.rewards[0, s, a], 0) for s in range(n_states) for a in range(n_actions)}
    env.P = {(s, a): mdp.transitions[0, s, a] for s, a in env.R}
    most = start + blocks.episodes * blocks.repeats + 1
    agent = _sources("agent")[AGENTS[algorithm] + SUFFIXES[model]](n_states, n_actions, mdp.horizon, most, privEps=1.0)
    numbers = iter(range(start, most))

    def episode() -> None:
        env.reset()
        env.state, going = int(mdp.start.argmax()), 1
        agent.update_policy(next(numbers))
        while going > 0:
            step, state = env.get_states()
            action = agent.pick_action(state, step)
            reward, following, going = env.advance(action)
            agent.update_obs(state, action, reward, following, going, step)

    return microseconds_per_episode(repeated(episode), blocks)
