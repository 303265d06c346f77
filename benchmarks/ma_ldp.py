"""MA-LDP on the network MDP: compiled, against NumPy with the feature tensor, as ratios within one run.

Run from the repository's root: python -m benchmarks.ma_ldp [--quick] [--json PATH]
"""

from __future__ import annotations

import argparse
import sys
from typing import NamedTuple

import numpy as np
from rich.console import Console

from benchmarks.harness import Blocks, Row, command_line, microseconds_per_episode, show, verdict
from benchmarks.naive_ma_ldp import NaiveMALDP, TensorPlanner
from benchmarks.subjects import PLANNED_EPISODES, built
from dprl.algorithms.ma_ldp import MALDPConfig
from dprl.algorithms.ma_ldp.algorithm import MALDPLearner
from dprl.algorithms.ma_ldp.planning import make_plan, planning
from dprl.envs import LinearMixtureMDP, NetworkMDP
from dprl.privacy import LocalStatisticsPrivacy
from dprl.privacy.base import Float64Array

EPSILON = 1.0


class Case(NamedTuple):
    """n agents with d features, with a goal: least ratio of NumPy's time to ours."""

    agents: int
    dimension: int
    least: float | None
    gap: float = 1 / 6


CASES = (
    Case(2, 2, 50.0),
    Case(2, 3, 50.0),
    Case(2, 4, 50.0),
    Case(3, 3, None, gap=0.02),
    Case(4, 3, 150.0, gap=0.01),
)


def learner(env: LinearMixtureMDP, rewards: str, share: bool = False) -> MALDPLearner:
    """Return a learner behind certified Laplace noise."""
    config = MALDPConfig(share=share, value="joint" if share else "maxmin")
    privacy = LocalStatisticsPrivacy(EPSILON, rewards=rewards)  # type: ignore[arg-type]
    found: MALDPLearner = built(config, env, privacy, PLANNED_EPISODES)
    return found


def naive(env: LinearMixtureMDP) -> NaiveMALDP:
    """Return the NumPy program with the same noise, radii and shifts."""
    ours = learner(env, "public")
    mechanism = ours.privatizer.query.law
    return NaiveMALDP(env, ours.beta_rates, ours.shift_rates, np.array(mechanism.scales))


def measure(case: Case, quick: bool) -> Row:
    """Return CPU microseconds per episode on one network."""
    env = NetworkMDP(n_agents=case.agents, dimension=case.dimension, gap=case.gap).build()
    small = case.agents == 2
    blocks = Blocks(200, 100 if quick else 400) if small else Blocks(4, 10 if quick else 50)
    row: Row = {"agents": case.agents, "dimension": case.dimension}
    for name, settings in {"ours": ("public",), "learning_rewards": ("noisy",), "shared": ("public", True)}.items():
        compiled = learner(env, *settings)  # type: ignore[arg-type]
        compiled.learn(10)
        row[name] = microseconds_per_episode(compiled.learn, blocks)
    theirs = naive(env)
    theirs.run(2)
    slow = Blocks(40, 3 if quick else 10) if small else Blocks(2, 2 if quick else 5)
    row["naive"] = microseconds_per_episode(theirs.run, slow)
    row["ratio"] = row["naive"] / row["ours"]
    return row | {"least": verdict(row["ratio"], case.least)}


def disagreement(repetitions: int) -> float:
    """Return the largest difference of both planners' values on random estimates and rewards."""
    worst, generator = 0.0, np.random.default_rng(0)
    for n, d in ((2, 2), (2, 3), (3, 2), (3, 3)):
        env = NetworkMDP(n_agents=n, dimension=d, gap=0.02).build()
        theirs = TensorPlanner(env, floor=0.0)
        for _ in range(repetitions):
            theta, inverse, rewards = random_estimates(env, generator)
            radii = generator.random(env.horizon)
            box = planning(env, 0.0, joint=False, n_messages=n)
            believed = np.zeros((n, env.horizon, box.plan.values.shape[2]))
            believed[..., : env.n_states] = rewards
            make_plan(box, theta, inverse, believed, radii)
            for i in range(n):
                expected = theirs.plan(i, theta[i], inverse[i], rewards[i], radii)[2]
                worst = max(worst, float(np.abs(box.plan.values[i, :, : env.n_states] - expected).max()))
    return worst


def random_estimates(env: LinearMixtureMDP, generator: np.random.Generator) -> tuple[Float64Array, ...]:
    """Return theta [n, H, D], inverses of Sigma [n, H, D, D] and rewards [n, H, S] of n agents, at random."""
    n, horizon, dimension = env.n_agents, env.horizon, env.n_agents * env.dimension
    theta = 0.3 * generator.standard_normal((n, horizon, dimension))
    root = generator.standard_normal((n, horizon, dimension, dimension))
    return theta, root @ root.swapaxes(2, 3) / dimension, generator.random((n, horizon, env.n_states))


def run(console: Console, options: argparse.Namespace) -> Row:
    """Check that both planners agree, then measure and print."""
    worst = disagreement(2)
    console.print(f"values of both planners on the same estimates: difference at most {worst:.1e}")
    rows = [measure(case, options.quick) for case in CASES]
    show(
        console,
        "MA-LDP, CPU microseconds an episode (H = 5, q = 1, Laplace noise)",
        rows,
        "n {agents} | d {dimension} | ours {ours:.1f} | rewards learned {learning_rewards:.1f} "
        "| one message {shared:.1f} | NumPy, tensor {naive:.0f} | ratio {ratio:.0f} | goal {least}",
    )
    return {"disagreement": worst, "rows": rows}


if __name__ == "__main__":
    sys.exit(command_line(run, __doc__))
