"""Runs inside the peer's environment: times rlberry-scool's UCBVI on a saved MDP, prints a line of JSON."""

from __future__ import annotations

import json
import logging
import sys
import time
from importlib.metadata import version

import numpy as np
from rlberry.envs.finite_mdp import FiniteMDP
from rlberry_scool.agents.ucbvi import UCBVIAgent  # type: ignore[import-not-found, unused-ignore]


def main() -> None:
    """Fit a warm agent for n episodes, several times, and report the cheapest; arguments: file, episodes, repeats."""
    file, episodes, repeats = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    logging.getLogger("rlberry_logger").setLevel(logging.ERROR)
    agent = load_agent(file)
    agent.fit(50)
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        agent.fit(episodes)
        seconds.append(time.process_time() - start)
    name = f"rlberry-scool {version('rlberry-scool')} UCBVI"
    print(json.dumps({"name": name, "microseconds": min(seconds) / episodes * 1e6}))


def load_agent(path: str) -> UCBVIAgent:
    """The agent as shipped, on the saved MDP: transitions [S,A,S'], rewards [S,A], start state, horizon."""
    with np.load(path) as saved:
        transitions, rewards = saved["transitions"], saved["rewards"]
        start, horizon = int(saved["start"]), int(saved["horizon"])
    env = FiniteMDP(rewards, transitions, initial_state_distribution=start)
    return UCBVIAgent(env, horizon=horizon, stage_dependent=True)


if __name__ == "__main__":
    main()
