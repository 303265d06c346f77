"""Runs inside the peer's environment: times rlberry-scool's UCBVI on a saved MDP, prints a line of JSON."""

from __future__ import annotations

import argparse
import json
import logging
import time
from importlib.metadata import version

import numpy as np
from rlberry.envs.finite_mdp import FiniteMDP
from rlberry_scool.agents.ucbvi import UCBVIAgent  # type: ignore[import-not-found, unused-ignore]


def main() -> None:
    """Fit a warm agent for some episodes, several times, and report the cheapest."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mdp", help="npz file: transitions [S,A,S'], rewards [S,A], start state, horizon")
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--warm-up", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    logging.getLogger("rlberry_logger").setLevel(logging.ERROR)
    agent = load_agent(arguments.mdp)
    agent.fit(arguments.warm_up)
    seconds = []
    for _ in range(arguments.repeats):
        start = time.process_time()
        agent.fit(arguments.episodes)
        seconds.append(time.process_time() - start)
    best = min(seconds) / arguments.episodes
    name = f"rlberry-scool {version('rlberry-scool')} UCBVI"
    print(json.dumps({"name": name, "microseconds": best * 1e6}))


def load_agent(path: str) -> UCBVIAgent:
    """The agent as shipped, on the saved MDP."""
    with np.load(path) as saved:
        transitions, rewards = saved["transitions"], saved["rewards"]
        start, horizon = int(saved["start"]), int(saved["horizon"])
    env = FiniteMDP(rewards, transitions, initial_state_distribution=start)
    return UCBVIAgent(env, horizon=horizon, stage_dependent=True)


if __name__ == "__main__":
    main()
