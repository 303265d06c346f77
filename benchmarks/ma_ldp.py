"""MA-LDP on networks and random mixtures: compiled, against NumPy with the feature tensor, as ratios within one run.

Run from the repository's root: python -m benchmarks.ma_ldp [--quick] [--json PATH]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import numpy as np

from benchmarks.harness import Blocks, Row, built, command_line, race
from benchmarks.naive_ma_ldp import NaiveMALDP
from dprl.algorithms.ma_ldp import MALDPConfig
from dprl.algorithms.ma_ldp.algorithm import _MALDPLearner
from dprl.envs import LinearMixtureMDP, NetworkMDP, RandomMixture
from dprl.privacy import StatisticsPrivacy
from dprl.privacy.mechanisms.gram import Gram

EPSILON = 1.0


# n agents with d features each, and the gap of the network.
CASES = ((2, 2, 1 / 6), (2, 3, 1 / 6), (2, 4, 1 / 6), (3, 3, 0.02), (4, 3, 0.01))
# Random mixtures.
TABLES = (
    {"n_states": 30, "n_actions": 4, "dimension": 4},
    {"n_states": 50, "n_actions": 4, "dimension": 8},
    {"n_states": 10, "n_actions": 3, "n_agents": 2, "dimension": 2},
)


def learner(env: LinearMixtureMDP) -> _MALDPLearner:
    """Return a learner behind certified Laplace noise."""
    privacy = StatisticsPrivacy("ldp", EPSILON, rewards="public")
    found: _MALDPLearner = built(MALDPConfig(), env, privacy)
    return found


def naive(env: LinearMixtureMDP) -> NaiveMALDP:
    """Return the NumPy program with the same noise, radii and shifts."""
    ours = learner(env)
    noise = cast(Gram, ours.privatizer.query.law)
    return NaiveMALDP(env, ours.beta_rates, ours.shift_rates, np.array(noise.scales))


def compared(env: LinearMixtureMDP, quick: bool) -> Row:
    """Return CPU microseconds per episode on one environment."""
    agents = env.n_agents
    blocks, slow = Blocks(4, 10 if quick else 50), Blocks(2, 2 if quick else 5)
    if agents <= 2:
        blocks, slow = Blocks(200, 100 if quick else 400), Blocks(40, 3 if quick else 10)
    compiled, theirs = learner(env), naive(env)
    compiled.learn(10)
    theirs.run(2)
    return {"n": agents, "S": env.n_states, "D": env.dimension, **race(compiled.learn, blocks, theirs.run, slow)}


def measure(quick: bool) -> Iterator[tuple[str, list[Row]]]:
    title = "MA-LDP: CPU microseconds per episode, ours and NumPy with the tensor"
    networks = [NetworkMDP(n_agents=n, dimension=d, gap=gap).build() for n, d, gap in CASES]
    yield f"{title}: networks (H = 5, q = 1, Laplace noise)", [compared(env, quick) for env in networks]
    tables = [RandomMixture(**sizes).build() for sizes in TABLES]
    yield f"{title}: random mixtures (H = 10)", [compared(env, quick) for env in tables]


if __name__ == "__main__":
    command_line(measure, __doc__)
