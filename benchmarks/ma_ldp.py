"""MA-LDP on the network MDP: compiled, against NumPy with the feature tensor, as ratios within one run.

Run from the repository's root: python -m benchmarks.ma_ldp [--quick] [--json PATH]
"""

from __future__ import annotations

import argparse
import sys
from typing import NamedTuple, cast

import numpy as np
from rich.console import Console

from benchmarks.harness import Blocks, Row, command_line, race, show
from benchmarks.naive_ma_ldp import NaiveMALDP
from benchmarks.subjects import PLANNED_EPISODES, built
from dprl.algorithms.ma_ldp import MALDPConfig
from dprl.algorithms.ma_ldp.algorithm import _MALDPLearner
from dprl.envs import LinearMixtureMDP, NetworkMDP
from dprl.privacy import StatisticsPrivacy
from dprl.privacy.mechanisms.gram import Gram

EPSILON = 1.0


class Case(NamedTuple):
    """n agents with d features."""

    agents: int
    dimension: int
    gap: float = 1 / 6


CASES = (
    Case(2, 2),
    Case(2, 3),
    Case(2, 4),
    Case(3, 3, gap=0.02),
    Case(4, 3, gap=0.01),
)


def learner(env: LinearMixtureMDP) -> _MALDPLearner:
    """Return a learner behind certified Laplace noise."""
    privacy = StatisticsPrivacy("ldp", EPSILON, rewards="public")
    found: _MALDPLearner = built(MALDPConfig(), env, privacy, PLANNED_EPISODES)
    return found


def naive(env: LinearMixtureMDP) -> NaiveMALDP:
    """Return the NumPy program with the same noise, radii and shifts."""
    ours = learner(env)
    noise = cast(Gram, ours.privatizer.query.law)
    return NaiveMALDP(env, ours.beta_rates, ours.shift_rates, np.array(noise.scales))


def measure(case: Case, quick: bool) -> Row:
    """Return CPU microseconds per episode on one network."""
    env = NetworkMDP(n_agents=case.agents, dimension=case.dimension, gap=case.gap).build()
    small = case.agents == 2
    blocks = Blocks(200, 100 if quick else 400) if small else Blocks(4, 10 if quick else 50)
    slow = Blocks(40, 3 if quick else 10) if small else Blocks(2, 2 if quick else 5)
    compiled, theirs = learner(env), naive(env)
    compiled.learn(10)
    theirs.run(2)
    times = race(compiled.learn, blocks, {"naive": (theirs.run, slow)})
    return {"agents": case.agents, "dimension": case.dimension, **times, "ratio": times["naive"] / times["ours"]}


def run(console: Console, options: argparse.Namespace) -> Row:
    rows = [measure(case, options.quick) for case in CASES]
    show(
        console,
        "MA-LDP, CPU microseconds an episode (H = 5, q = 1, Laplace noise)",
        rows,
        "n {agents} | d {dimension} | ours {ours:.1f} | NumPy, tensor {naive:.0f} | ratio {ratio:.0f}",
    )
    return {"rows": rows}


if __name__ == "__main__":
    sys.exit(command_line(run, __doc__))
