"""MA-LDP on the network MDP: compiled, against NumPy with the feature tensor, in one run and as ratios.

Run from the repository's root: python -m benchmarks.ma_ldp [--quick] [--json PATH]
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.naive_ma_ldp import NaiveMALDP, TensorPlanner
from benchmarks.tabular import verdict
from benchmarks.timing import Blocks, machine, microseconds_per_episode
from dprl.algorithms.ldp_sign_votes import LDPSignVotesConfig
from dprl.algorithms.ma_ldp import MALDPConfig
from dprl.algorithms.ma_ldp.learner import MALDPLearner
from dprl.algorithms.ma_ldp.planning import make_plan, planning
from dprl.envs import LinearMixtureMDP, NetworkMDP
from dprl.privacy import LocalBitPrivacy, LocalStatisticsPrivacy, Streams
from dprl.privacy.base import Float64Array

EPSILON, MOST_EPISODES = 1.0, 1_000_000
WITHOUT_AVX512 = 1.25
"""Goals in microseconds are for AVX-512; with narrower vectors they are so many times as long."""


@dataclass(frozen=True)
class Goal:
    """Of n agents with d features: at most so many microseconds an episode, at least so many times NumPy's speed."""

    agents: int
    dimension: int
    microseconds: float | None
    over_naive: float | None
    gap: float = 1 / 6


GOALS = (
    Goal(2, 2, 10.0, 50.0),
    Goal(2, 3, 15.0, 50.0),
    Goal(2, 4, 30.0, 50.0),
    Goal(3, 3, None, None, gap=0.02),
    Goal(4, 3, 1500.0, 150.0, gap=0.01),
)


@dataclass(frozen=True)
class Row:
    """CPU microseconds an episode of n agents with d features."""

    agents: int
    dimension: int
    ours: float
    learning_rewards: float
    shared: float
    naive: float

    @property
    def over_naive(self) -> float:
        return self.naive / self.ours


def learner(env: LinearMixtureMDP, rewards: str, share: bool = False) -> MALDPLearner:
    """Return a learner behind certified Laplace noise."""
    streams = Streams(0, "benchmark")
    config = MALDPConfig(share=share, value="joint" if share else "maxmin")
    privacy = LocalStatisticsPrivacy(EPSILON, rewards=rewards)  # type: ignore[arg-type]
    privatizer = config.privatizer(env, privacy, MOST_EPISODES, streams)
    return config.build(env, privatizer, MOST_EPISODES, streams)


def naive(env: LinearMixtureMDP) -> NaiveMALDP:
    """Return the same in NumPy: the same noise, radii and shifts."""
    ours = learner(env, "public")
    mechanism = ours.privatizer.parts.mechanism
    return NaiveMALDP(env, ours.beta_rates, ours.shift_rates, np.array(mechanism.scales))


def measure(goal: Goal, quick: bool) -> Row:
    """Time everything on one network."""
    env = NetworkMDP(n_agents=goal.agents, dimension=goal.dimension, gap=goal.gap).build()
    small = goal.agents == 2
    blocks = Blocks(200, 100 if quick else 400) if small else Blocks(4, 10 if quick else 50)
    times = []
    for settings in (("public", False), ("noisy", False), ("public", True)):
        compiled = learner(env, *settings)
        compiled.learn(10)
        times.append(microseconds_per_episode(compiled.learn, blocks))
    theirs = naive(env)
    theirs.run(2)
    slow = Blocks(40, 3 if quick else 10) if small else Blocks(2, 2 if quick else 5)
    ours, learning, shared = times
    return Row(goal.agents, goal.dimension, ours, learning, shared, microseconds_per_episode(theirs.run, slow))


def votes(quick: bool) -> float:
    """CPU microseconds an episode of LDP-SignVotes on the network of two agents."""
    env, streams, config = NetworkMDP().build(), Streams(0, "benchmark"), LDPSignVotesConfig()
    privatizer = config.privatizer(env, LocalBitPrivacy(EPSILON), MOST_EPISODES, streams)
    ours = config.build(env, privatizer, MOST_EPISODES, streams)
    ours.learn(10)
    return microseconds_per_episode(ours.learn, Blocks(1000, 50 if quick else 200))


def table(rows: list[Row], allowance: float) -> Table:
    """Return what is printed; goals in microseconds are taken `allowance` times."""
    found = Table(title="MA-LDP, CPU microseconds an episode (H = 5, q = 1, Laplace noise)")
    for header in ("n", "d", "ours", "goal", "rewards learned", "one message", "NumPy, tensor", "ratio", "goal "):
        found.add_column(header, justify="right")
    for goal, row in zip(GOALS, rows, strict=True):
        found.add_row(
            str(row.agents),
            str(row.dimension),
            f"{row.ours:.1f}",
            "" if goal.microseconds is None else verdict(row.ours, allowance * goal.microseconds, at_most=True),
            f"{row.learning_rewards:.1f}",
            f"{row.shared:.1f}",
            f"{row.naive:.0f}",
            f"{row.over_naive:.0f}",
            "" if goal.over_naive is None else verdict(row.over_naive, goal.over_naive),
        )
    return found


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


def main() -> int:
    """Check that both agree, measure, print, and write JSON if asked to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ma_ldp", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write all figures here")
    parser.add_argument("--quick", action="store_true", help="shorter blocks")
    arguments = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 140, highlight=False)
    here, worst = machine(), disagreement(2)
    console.print(", ".join(f"{key} {value}" for key, value in here.items()))
    console.print(f"values of both planners on the same estimates: difference at most {worst:.1e}")
    rows = [measure(goal, arguments.quick) for goal in GOALS]
    allowance = 1.0 if here["vectors"] == "AVX-512" else WITHOUT_AVX512
    console.print(table(rows, allowance))
    bits = votes(arguments.quick)
    console.print(f"LDP-SignVotes, n = d = 2: {bits:.2f} us an episode")
    if arguments.json:
        document = {"machine": here, "disagreement": worst, "rows": [asdict(row) for row in rows], "votes": bits}
        arguments.json.write_text(json.dumps(document, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
