"""Contract of every algorithm whose users send one message of statistics each, beside that of all learners.

A message is sent once, in order and after its charge; the learner receives nothing else from its user.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from dprl.algorithms import ALGORITHMS
from dprl.algorithms.learner import Learner
from dprl.envs import LinearMixtureMDP, NetworkMDP
from dprl.privacy import Streams
from tests.algorithms.test_learner_contract import PRIVACY, K
from tests.algorithms.test_learner_contract import learner as learner_of
from tests.without_compiler import printed_both_ways

NAMES = [name for name, config in ALGORITHMS.items() if config.releases == "statistics"]
CASES = [(name, kind) for name in NAMES for kind in PRIVACY["statistics"]]
EACH = pytest.mark.parametrize("name", NAMES)
TRUST = pytest.mark.parametrize(("name", "kind"), CASES, ids=[" ".join(case) for case in CASES])
MDP = NetworkMDP(dimension=3, signs="random", horizon=4).build()


def learner(name: str, kind: str = "none", seed: int = 0, episodes: int = K, mdp: LinearMixtureMDP = MDP) -> Any:
    return learner_of(name, kind, seed, episodes, env=mdp)


def interpreted(made: Learner, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Let a learner's loop run uncompiled; returns the names that it looks up."""
    module = sys.modules[type(made).__module__]
    plain = module.run.py_func
    monkeypatch.setattr(module, "run", plain)
    names: dict[str, Any] = plain.__globals__
    return names


def users_of(made: Learner) -> tuple[str, Any]:
    """The attribute that holds the users' side, and what it holds."""
    return next((key, held) for key, held in vars(made).items() if hasattr(held, "env_key"))


@TRUST
def test_users_reach_the_learner_through_messages_only(name: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With different users but equal messages, policies and regret must be equal bit for bit."""
    names = interpreted(learner(name, kind), monkeypatch)
    original, told, world = names["send_statistics"], [], 0

    def blinded(channel: Any, *data: Any) -> None:
        told.append([np.array(part).tolist() for part in data])
        *values, user = data
        original(channel, *(np.full_like(part, 0.1 * (user % 7)) for part in values), user)
        # The user's part of the buffer must not be read.
        channel.feature[:] = world
        channel.clipped[:] = world
        channel.reward_noise.numbers[:] = world

    monkeypatch.setitem(names, "send_statistics", blinded)
    outcomes, saw = [], []
    for world in (1, 2):
        made = learner(name, kind)
        where, people = users_of(made)
        setattr(made, where, people._replace(env_key=Streams(world, "world").key("env")))
        told.clear()
        found = [(made.learn(5), made.policy.tolist()) for _ in range(K // 5)]
        outcomes.append((found, {key: array.tolist() for key, array in made._arrays().items()}))
        saw.append([*told])
    assert outcomes[0] == outcomes[1]
    assert saw[0] != saw[1]
    assert len(saw[0]) == K - 1


@EACH
def test_a_refused_state_leaves_the_learner_as_it_was(name: str) -> None:
    """A state whose ledger is at another episode is refused before anybody is charged, and the right one loads."""
    made, other = learner(name), learner(name)
    made.learn(9)
    early = made.state_dict()
    made.learn(4)
    late = made.state_dict()
    mixed = {key: early[key] if key.startswith("privatizer.") else value for key, value in late.items()}
    with pytest.raises(ValueError, match="the same settings, environment and seed, unchanged"):
        other.load_state_dict(mixed)
    ahead = learner(name)
    ahead.learn(9)
    ahead.privatizer.charge(10, 10)
    with pytest.raises(ValueError, match="must be those that its ledger has charged"):
        other.load_state_dict(ahead.state_dict())
    assert other.privatizer.ledger.users_charged == 0
    other.load_state_dict(late)
    assert other.learn(3) == made.learn(3)


@EACH
def test_what_may_follow_a_state_is_part_of_the_environment(name: str) -> None:
    """At H = 2 the intermediate node's own weights change no value; they are another environment all the same."""
    ways = [NetworkMDP(horizon=2, gap=0.05, node_leave=leave, node_forward=0.3).build() for leave in (0.5, 0.4)]
    assert ways[0].optimal_start_value() == ways[1].optimal_start_value()
    made = learner(name, mdp=ways[0])
    made.learn(5)
    with pytest.raises(ValueError, match="the same settings, environment and seed"):
        learner(name, mdp=ways[1]).load_state_dict(made.state_dict())


@TRUST
def test_policies_are_probabilities_and_regret_is_exact(name: str, kind: str) -> None:
    """An episode's regret is V* - V^pi of the policy that was deployed in it, which `policy` is until the next one."""
    made, best = learner(name, kind), MDP.optimal_start_value()
    seen = [made.policy]
    for _ in range(K):
        missing = made.learn(1)["regret"]
        assert made.policies.keys() == {"policy"}
        seen.append(made.policies["policy"])
        assert best - MDP.start_value(seen[-1]) == pytest.approx(missing, abs=1e-9)
        made.policy[:] = 0.0  # a copy, because the run continues
    assert np.array_equal(made.policy, seen[-1])
    for policy in seen:
        assert policy.shape == (MDP.horizon, MDP.n_states, MDP.n_agents, MDP.n_actions)
        assert policy.min() >= 0.0
        np.testing.assert_allclose(policy.sum(axis=-1), 1.0, rtol=1e-12)
    assert len({policy.tobytes() for policy in seen}) > 1


def test_same_bits_without_the_compiler() -> None:
    printed_both_ways("import tests.algorithms.test_submitting_contract as its; print(*its.fingerprints())")


def fingerprints() -> list[str]:
    """Metrics and state after a short run of every algorithm under every trust model, as exact text."""
    small, found = NetworkMDP(horizon=3).build(), []
    for name, kind in CASES:
        made = learner(name, kind, episodes=12, mdp=small)
        segment = made.learn(12)
        arrays = [made._arrays()[key] for key in sorted(made._arrays())]
        numbers = (*segment.values(), *(number for array in arrays for number in array.flat))
        found.append(" ".join((name, kind, *(float(number).hex() for number in numbers))))
    return found
