"""Runs inside the peer's environment: prints microseconds per episode of rlberry-scool's UCBVI on a saved MDP."""

from __future__ import annotations

import logging
import sys
import time
import timeit

import numpy as np
from rlberry.envs.finite_mdp import FiniteMDP
from rlberry_scool.agents.ucbvi import UCBVIAgent  # type: ignore[import-not-found, unused-ignore]


def main() -> None:
    """Fit a warm agent for n episodes, several times, and report the cheapest; arguments: file, episodes, repeats."""
    file, episodes, repeats = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    logging.getLogger("rlberry_logger").setLevel(logging.ERROR)
    # The agent as shipped, on transitions [S,A,S'] and rewards [S,A].
    with np.load(file) as saved:
        env = FiniteMDP(saved["rewards"], saved["transitions"], initial_state_distribution=int(saved["start"]))
        agent = UCBVIAgent(env, horizon=int(saved["horizon"]), stage_dependent=True)
    agent.fit(50)
    took = timeit.repeat(lambda: agent.fit(episodes), timer=time.process_time, repeat=repeats, number=1)
    print(min(took) / episodes * 1e6)


if __name__ == "__main__":
    main()
