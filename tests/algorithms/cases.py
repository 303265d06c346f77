"""Shared cases of this folder: trust models, settings, readings of environments, and counts made from MDPs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import pytest

from dprl.algorithms import ALGORITHMS, TabularConfig, TabularLearner
from dprl.algorithms.tabular import Released, learning_loop
from dprl.algorithms.tabular.greedy import GreedyTables
from dprl.envs import Env, FiniteMDP, LoggedEpisodes, MarkovGame
from dprl.privacy import CountPrivacy

E = TypeVar("E", bound=Env)
Learner = Callable[..., TabularLearner]
State = dict[str, np.ndarray]
# Enough noise to matter, and little enough for policies to change at these scales.
PRIVACY: list[Any] = [CountPrivacy("none"), CountPrivacy("jdp", 20.0), CountPrivacy("ldp", 200.0)]
PRACTICAL = {"bonus_scale": 0.02, "precision_scale": 0.05}
# Algorithms on known environments; test_logged_vi.py tests the other one.
TABULAR = sorted(
    name
    for name, config in ALGORITHMS.items()
    if issubclass(config, TabularConfig) and config.plays is not LoggedEpisodes
)
# Algorithms that plan while users play; the others have one release, at the end.
ONLINE = [name for name in TABULAR if getattr(ALGORITHMS[name], "online", True)]
EACH = pytest.mark.parametrize("name", TABULAR)
EACH_ONLINE = pytest.mark.parametrize("name", ONLINE)
GROWTHS = [0.0, 0.1]
COUNTS = pytest.mark.parametrize("form", ["rewards", "costs"])
TRUST = pytest.mark.parametrize("privacy", PRIVACY, ids=lambda settings: settings.model)


@dataclass(frozen=True)
class Environments(Generic[E]):
    """The environments of one class for the tests of every algorithm.

    small: quickly learned. random: with more of everything. tiny: rewards are 0 or 1, and the first state is random.
    """

    small: E
    random: E
    tiny: E


def same_state(ours: State, theirs: State) -> bool:
    """Whether two states hold the same bits."""
    return ours.keys() == theirs.keys() and all(ours[key].tobytes() == theirs[key].tobytes() for key in ours)


def interpreted(name: str, monkeypatch: pytest.MonkeyPatch, plan: Any = None) -> dict[str, Any]:
    """Run an algorithm's loop uncompiled, with users one by one, or one with another plan; returns its globals."""
    config: Any = ALGORITHMS[name]
    run = config.run

    def planned(counts: Any, bonus: Any, tables: Any) -> tuple[bool, float]:
        changed: tuple[bool, float] = (plan or run.plan)(counts, bonus, tables)
        return changed

    plain: Any = learning_loop(planned, run.play, run.regret)
    plain.add_block = None
    monkeypatch.setattr(config, "run", staticmethod(plain))
    names: dict[str, Any] = plain.__globals__
    return names


def optimal_q(mdp: FiniteMDP) -> np.ndarray:
    """Q* [S, A] of the first step by value iteration."""
    q: np.ndarray = mdp.rewards[-1]
    for h in reversed(range(mdp.horizon - 1)):
        q = mdp.rewards[h] + mdp.transitions[h] @ q.max(axis=1)
    return q


def clearly_best(q: np.ndarray) -> np.ndarray:
    """Where, bool[H, S], one action is better than all others by more than rounding, q [H, S, A]."""
    best_two = np.sort(q, axis=2)[..., -2:]
    return np.asarray(best_two[..., 1] - best_two[..., 0] > 1e-9)


def value_of(mdp: FiniteMDP, policy: np.ndarray) -> np.ndarray:
    """Value [S] of a policy by pushing every first state's distribution forward, with no backward induction."""
    chances = policy if policy.ndim == 3 else np.eye(mdp.n_actions)[policy]
    reached, total = np.eye(mdp.n_states), np.zeros(mdp.n_states)
    for h in range(mdp.horizon):
        played = reached[:, :, None] * chances[h]
        total += (played * mdp.rewards[h]).sum(axis=(1, 2))
        reached = np.einsum("isa,sat->it", played, mdp.transitions[h])
    return total


def against(game: MarkovGame, opponent: np.ndarray, maximise: bool) -> FiniteMDP:
    """The MDP of one player whose opponent's policy [H, S, actions] is fixed; the min-player's rewards are 1 - r."""
    law, payoff = ("hsabt,hsb->hsat", "hsab,hsb->hsa") if maximise else ("hsabt,hsa->hsbt", "hsab,hsa->hsb")
    rewards = game.rewards if maximise else 1.0 - game.rewards
    mixed = np.clip(np.einsum(payoff, rewards, opponent), 0.0, 1.0)
    return FiniteMDP("against", np.einsum(law, game.transitions, opponent), mixed, game.start)


def best_responses(game: MarkovGame, policy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """V^{dagger,nu} and V^{mu,dagger} [S] of the first step, for the marginals of a joint policy [H, S, A, B]."""
    most = optimal_q(against(game, policy.sum(axis=2), maximise=True)).max(axis=1)
    least = optimal_q(against(game, policy.sum(axis=3), maximise=False)).max(axis=1)
    return most, game.horizon - least


def regret_of(env: Env, policy: np.ndarray) -> float:
    """V* - V^pi in an MDP, the duality gap of the marginals in a game."""
    if isinstance(env, MarkovGame):
        most, least = best_responses(env, policy)
    else:
        assert isinstance(env, FiniteMDP)
        most, least = optimal_q(env).max(axis=1), value_of(env, policy)
    return float(env.start @ (most - least))


def deployable(env: Env, policy: np.ndarray) -> bool:
    """Whether a policy is actions int64[H, S], or probabilities [H, S, A] in an MDP and [H, S, A, B] in a game."""
    if isinstance(env, FiniteMDP) and policy.dtype == np.int64:
        return policy.shape == env.rewards.shape[:2] and bool(((policy >= 0) & (policy < env.n_actions)).all())
    assert isinstance(env, FiniteMDP | MarkovGame)
    if policy.shape != env.rewards.shape or policy.dtype != np.float64 or (policy < 0.0).any():
        return False
    return np.allclose(policy.reshape(*policy.shape[:2], -1).sum(axis=2), 1.0, rtol=1e-12, atol=0.0)


def families(values: np.ndarray, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Transitions [H, S', S, A], visits [H, S, A] and rewards [H, S, A], views of counts; shape: H, S, A."""
    horizon, n_states, n_actions = shape
    rows = values.reshape(horizon, n_states + 2, n_states, n_actions)
    return rows[:, :n_states], rows[:, n_states], rows[:, n_states + 1]


def true_counts(mdp: FiniteMDP, visits: int, generator: np.random.Generator | None = None) -> np.ndarray:
    """Counts of `visits` visits to every cell, their transitions drawn or, without a generator, as expected."""
    horizon, n_states, n_actions = mdp.rewards.shape
    values = np.full(horizon * (n_states + 2) * n_states * n_actions, float(visits))
    transitions, _, rewards = families(values, mdp.rewards.shape)
    drawn = generator.multinomial(visits, mdp.transitions) if generator else visits * mdp.transitions
    transitions[:] = np.moveaxis(drawn, -1, 1)
    rewards *= mdp.rewards
    return values


def counts_at_their_bounds(mdp: FiniteMDP, visits: int, bounds: dict[str, float]) -> Iterator[np.ndarray]:
    """Yield counts as expected with each family moved by its whole error bound, in all eight directions."""
    for signs in itertools.product((-1, 1), repeat=3):
        values = true_counts(mdp, visits)
        moved = families(values, mdp.rewards.shape)
        for i, family in enumerate(("transitions", "visits", "rewards")):
            moved[i][:] += signs[i] * bounds[family]
        yield values


def greedy_plan(
    plan: Callable[..., tuple[bool, float]], values: np.ndarray, bonus: Any, mdp: FiniteMDP, users: int = 1
) -> tuple[np.ndarray, np.ndarray, float]:
    """Policy [H, S], Q [S, A] of the first step and the saturated share that a kernel with greedy tables finds."""
    horizon, n_states, n_actions = mdp.rewards.shape
    policy = np.zeros((horizon, n_states), dtype=np.int64)
    tables = GreedyTables(policy, np.zeros(n_states), np.zeros(n_states * n_actions))
    _, saturated = plan(Released(values, users, 1), bonus, tables)
    return policy, tables.q.reshape(n_states, n_actions), saturated
