"""Runs in blocks of users: seconds of whole runs, compared with users one by one.

Run from the repository's root: python -m benchmarks.blocks [--quick] [--json PATH]
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from rich.console import Console

from benchmarks import subjects
from benchmarks.harness import Blocks, Row, command_line, cpu_seconds, microseconds_per_episode, show
from dprl.algorithms import ALGORITHMS, TabularLearner
from dprl.envs import Env, RandomGame
from dprl.privacy import CountPrivacy

EPISODES = 10**9
GROWTH = 0.01
SCALES = {"bonus_scale": 0.03, "precision_scale": 0.03}
NOISES: dict[str, CountPrivacy] = {
    "central, (1, 1e-6)": CountPrivacy("jdp", 1.0, 1e-6),
    "local, sampled unary": CountPrivacy("ldp", 1.0),
    "local, Laplace": CountPrivacy("ldp", 1.0, families="separate", mechanism="laplace"),
}


def learner(env: Env, name: str, privacy: CountPrivacy, episodes: int, **settings: str) -> TabularLearner:
    """Return a learner with plans on a schedule."""
    config: Any = ALGORITHMS[name]
    found: TabularLearner = subjects.built(config(replan_growth=GROWTH, **SCALES, **settings), env, privacy, episodes)
    return found


def whole_run(env: Env, name: str, privacy: CountPrivacy, episodes: int) -> float:
    """Return CPU seconds of a run in blocks, after another run that has compiled everything."""
    learner(env, name, privacy, 10_000).learn(10_000)
    return cpu_seconds(lambda n: learner(env, name, privacy, n).learn(n), episodes)


def one_by_one(env: Env, name: str, privacy: CountPrivacy, episodes: int) -> float:
    """Return CPU seconds that users one by one would take for `episodes` episodes."""
    users = learner(env, name, privacy, 200_000, simulation="users")
    users.learn(1_000)
    return episodes * microseconds_per_episode(users.learn, Blocks(2_000)) / 1e6


def run(console: Console, options: argparse.Namespace) -> Row:
    river, large = subjects.riverswim(), subjects.random_mdp()
    game = RandomGame(n_states=5, n_max_actions=3, n_min_actions=3, horizon=5).build()
    cases: list[tuple[str, Env, str]] = [
        ("RiverSwim S6 H20", river, "private_ucb_vi"),
        ("RiverSwim S6 H20", river, "bernstein_vi"),
        ("random S20 A4 H20", large, "private_ucb_vi"),
        ("game S5 A3 B3 H5", game, "dp_nash_vi"),
    ]
    episodes = 10**7 if options.quick else EPISODES
    rows: list[Row] = []
    for label, env, name in cases:
        for noise, privacy in NOISES.items():
            took, users = whole_run(env, name, privacy, episodes), one_by_one(env, name, privacy, episodes)
            row: Row = {"label": label, "name": name, "noise": noise, "seconds": took, "users": users}
            rows.append(row | {"ratio": users / took})
    show(
        console,
        f"CPU seconds of {episodes:.0e} episodes, replan_growth {GROWTH:g}",
        rows,
        "environment {label} | algorithm {name} | noise {noise} | in blocks {seconds:.2f} "
        "| one by one {users:.0f} | ratio {ratio:.0f}",
    )
    return {"runs": rows}


if __name__ == "__main__":
    sys.exit(command_line(run, __doc__))
