"""An attack on one user's record refutes a careless variant, whose baseline has no noise, and not the algorithm.

Two data sets differ in the record of one user of the first round. The attacker sees the parameters after the second
round, learns on half of the runs to distinguish the data sets, and is scored on the others.
"""

from __future__ import annotations

import numpy as np
import pytest

from dprl.algorithms.base import Float64Array
from dprl.algorithms.dppg import DPPGConfig
from dprl.algorithms.dppg.algorithm import _DPPGLearner
from dprl.envs import Control, Episodes
from dprl.privacy import GradientPrivacy, Streams
from dprl.privacy.audits.distinguishing_attack import clopper_pearson_lower, clopper_pearson_upper, epsilon_lower_bound

pytestmark = pytest.mark.slow
EPSILON, DELTA, B, RUNS, ALPHA = 1.0, 1e-6, 100, 200, 1e-4
FAR = 1e8


class Careful(_DPPGLearner):
    """DPPG on records that are drawn here: one step each, observations near 1, one action is good."""

    world = 0

    def _play(self, n: int, theta: Float64Array, rng: np.random.Generator, *, sampled: bool) -> Episodes:
        seen = np.zeros((n, 1, 4), dtype=np.float32)
        seen[:, 0, 0] = 1.0 + 0.1 * rng.standard_normal(n)
        actions = self._network.act(theta, seen[:, 0], rng)[:, None]
        rewards = 1000.0 * (1.0 - 2.0 * actions) + rng.standard_normal((n, 1))
        if self.world and sampled and self.privatizer.charged <= B:
            seen[0, 0, 0], rewards[0, 0] = FAR, -FAR
        made = Episodes(seen, actions, rewards, np.ones(n, dtype=np.int64), np.ones(n, dtype=bool))
        return self.carelessly(made) if sampled else made

    def carelessly(self, episodes: Episodes) -> Episodes:
        return episodes


class UnnoisedCritic(Careful):
    """The mean of all earlier returns, without noise, is the next round's baseline."""

    before: Float64Array | None = None

    def carelessly(self, episodes: Episodes) -> Episodes:
        shifted = episodes.rewards - (0.0 if self.before is None else self.before.mean())
        self.before = episodes.rewards
        return episodes._replace(rewards=shifted)


def parameters(kind: type[Careful], world: int, run: int) -> Float64Array:
    config = DPPGConfig(users_per_update=B, hidden="linear", critic="none", learning_rate=1.0)
    env, streams = Control(horizon=1).build(), Streams(run, f"{kind.__name__} {world}")
    privacy = GradientPrivacy("jdp", EPSILON, DELTA, "clipped_gaussian", clip=2.0)
    learner = kind(config, env, config.privatizer(env, privacy, 2 * B, streams), 2 * B, streams)
    learner.world = world
    learner.learn(B)
    middle = learner.policy
    learner.learn(B)
    return np.concatenate([middle, learner.policy - middle])


def proved_against(kind: type[Careful]) -> float:
    """Return a lower bound on epsilon; it is above the true one with probability 2e-4 at most."""
    seen = np.array([[parameters(kind, world, run) for run in range(RUNS)] for world in (0, 1)])
    # Sizes reveal as much as positions, because a changed scale or step does not move the mean.
    features = np.concatenate([seen, np.log(np.abs(seen) + 1e-9)], axis=2)
    known, new = features[:, : RUNS // 2], features[:, RUNS // 2 :]
    spread = known.std(axis=1).mean(axis=0) + 1e-9
    along = (known[1].mean(axis=0) - known[0].mean(axis=0)) / spread**2
    scores, border = new @ along, (known @ along).mean()
    hits, misses = int((scores[1] > border).sum()), int((scores[0] > border).sum())
    n = RUNS // 2
    return max(
        epsilon_lower_bound(clopper_pearson_lower(hits, n, ALPHA), clopper_pearson_upper(misses, n, ALPHA), DELTA),
        epsilon_lower_bound(
            clopper_pearson_lower(n - misses, n, ALPHA), clopper_pearson_upper(n - hits, n, ALPHA), DELTA
        ),
    )


def test_the_algorithm_is_not_refuted() -> None:
    assert proved_against(Careful) <= EPSILON


def test_a_careless_variant_is_refuted() -> None:
    assert proved_against(UnnoisedCritic) > EPSILON
