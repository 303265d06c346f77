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

CASES: tuple[NetworkMDP | RandomMixture, ...] = (
    *(NetworkMDP(n, dimension=d, gap=gap) for n, d, gap in ((2, 2, 1 / 6), (2, 3, 1 / 6), (2, 4, 1 / 6), (4, 3, 0.01))),
    *(RandomMixture(30, 4, 1, 4), RandomMixture(50, 4, 1, 8), RandomMixture(10, 3, 2, 2)),
)


def learner(env: LinearMixtureMDP) -> _MALDPLearner:
    """Return a learner behind certified Laplace noise."""
    privacy = StatisticsPrivacy("ldp", 1.0, rewards="public")
    found: _MALDPLearner = built(MALDPConfig(), env, privacy)
    return found


def naive(env: LinearMixtureMDP) -> NaiveMALDP:
    """Return the NumPy program with the same noise, radii and shifts."""
    ours = learner(env)
    noise = cast(Gram, ours.privatizer.query.law)
    return NaiveMALDP(env, ours.beta_rates, ours.shift_rates, np.array(noise.scales))


def compared(env: LinearMixtureMDP, quick: bool) -> Row:
    """Return CPU microseconds per episode on one environment."""
    blocks, slow = Blocks(4, 10 if quick else 50), Blocks(2, 2 if quick else 5)
    if env.n_agents <= 2:
        blocks, slow = Blocks(200, 100 if quick else 400), Blocks(40, 3 if quick else 10)
    compiled, theirs = learner(env), naive(env)
    compiled.learn(10)
    theirs.run(2)
    sizes = {"env": env.name, "n": env.n_agents, "S": env.n_states, "D": env.dimension}
    return {**sizes, **race(compiled.learn, blocks, theirs.run, slow)}


def measure(quick: bool) -> Iterator[tuple[str, list[Row]]]:
    title = "MA-LDP: CPU microseconds per episode, ours and NumPy with the tensor (Laplace noise)"
    yield title, [compared(spec.build(), quick) for spec in CASES]


if __name__ == "__main__":
    command_line(measure, __doc__)
