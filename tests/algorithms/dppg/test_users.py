"""Users of dppg: updates of their own loss, errors that stay with them, and careless environments."""

from __future__ import annotations

import ctypes
import logging
import os
import subprocess
import sys
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from dprl.algorithms import DPPGConfig
from dprl.algorithms.base import Float64Array
from dprl.algorithms.dppg.algorithm import SCORE
from dprl.algorithms.dppg.network import Network
from dprl.algorithms.dppg.updates import Rollout, advantages, gradients, returns_to_go
from dprl.algorithms.pgc.user_code import error_barrier, silent
from dprl.envs import Control, ControlTask, Episodes
from dprl.privacy import GradientPrivacy, NoiseConfig, Streams
from dprl.privacy.audits.distinguishing_attack import clopper_pearson_lower, clopper_pearson_upper, epsilon_lower_bound
from dprl.privacy.threat_models import CARRIED

# Errors of users' environments: with noise for real users, no part of an error leaves their side.

SECRET = "the user of state 42"


def learner(noise: NoiseConfig, horizon: int = 10) -> Any:
    config, env = DPPGConfig(users_per_update=5, hidden="4"), Control(horizon=horizon).build()
    streams = Streams(0, "users", noise)
    privatizer = config.privatizer(env, GradientPrivacy("jdp", 1.0, 1e-6, "clipped_gaussian"), 20, streams)
    return config.build(env, privatizer, 20, streams)


def say_it_everywhere() -> None:
    """Write by every way of Python, of C with its buffer, and of another process."""
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        print(SECRET, file=stream)
    for descriptor in (1, 2):
        os.write(descriptor, SECRET.encode())
    ctypes.CDLL(None).printf(b"%s", SECRET.encode())
    subprocess.run([sys.executable, "-c", f"print({SECRET!r})"], check=True)
    logging.getLogger("env").critical(SECRET)
    warnings.warn(SECRET, stacklevel=1)


@pytest.mark.filterwarnings("default:the user of state 42")
@pytest.mark.parametrize("fit", [True, False])
@pytest.mark.parametrize("evaluating", [True, False])
def test_errors_and_prints_of_users_stay_with_them(
    fit: bool, evaluating: bool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    noise = NoiseConfig(arithmetic="exact", entropy="os") if fit else NoiseConfig()
    made, play = learner(noise), ControlTask.play

    def broken(*arguments: Any, checked: bool, **options: Any) -> Any:
        found = play(*arguments, checked=checked, **options)
        if checked is not evaluating:
            return found
        say_it_everywhere()
        raise ValueError(SECRET)

    monkeypatch.setattr(ControlTask, "play", broken)
    with pytest.raises((RuntimeError, ValueError)) as caught:
        made.learn(20)
    os.write(1, b"heard again")
    ctypes.CDLL(None).fflush(None)
    shown = capfd.readouterr()
    said = f"{caught.value!r} {caught.value.__context__!r} {caught.value.__cause__!r} {shown.out} {shown.err}"
    assert (SECRET in said) is not fit
    assert fit == ("data has left their side" in said or "texts of its environment are not shown" in said)
    assert "heard again" in shown.out


class _Loud:
    """An object of a user's environment that speaks when it is freed."""

    def __del__(self) -> None:
        print(SECRET)


def test_objects_of_a_failed_episode_are_not_heard_when_they_are_freed(capfd: pytest.CaptureFixture[str]) -> None:
    def step() -> None:
        held = _Loud()
        raise ValueError(f"{SECRET} {held}")

    with learner(NoiseConfig(arithmetic="exact", entropy="os"))._user_code(heard=False):
        step()
    shown = capfd.readouterr()
    assert SECRET not in shown.out + shown.err


def test_an_interrupt_passes_without_the_texts_that_a_user_was_handling() -> None:
    def step() -> None:
        try:
            raise ValueError(SECRET)
        except ValueError:
            raise KeyboardInterrupt(SECRET)  # noqa: B904 - as Ctrl-C there

    with pytest.raises(KeyboardInterrupt) as caught, error_barrier():
        step()
    assert (caught.value.args, caught.value.__context__, caught.value.__cause__) == ((), None, None)


def test_nothing_is_heard_until_the_last_block_of_all_threads_has_ended(capfd: pytest.CaptureFixture[str]) -> None:
    first, second = silent(), silent()
    for block in (first, second):
        block.__enter__()
    first.__exit__(None, None, None)
    os.write(1, SECRET.encode())
    second.__exit__(None, None, None)
    os.write(2, b"heard again")
    shown = capfd.readouterr()
    assert (SECRET in shown.out, shown.err) == (False, "heard again")


def test_what_an_environment_carries_is_named_and_reaches_no_evaluation() -> None:
    made = learner(NoiseConfig())
    made.learn(20)
    assert CARRIED in made.certificate().to_dict()["excluded_channels"]
    assert {users for _, users in made._rollout._vectors} == {False, True}


def test_an_environment_is_tried_before_there_are_users(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise ValueError("a mistake in the environment")

    monkeypatch.setattr(ControlTask, "play", broken)
    with pytest.raises(ValueError, match="a mistake in the environment"):
        learner(NoiseConfig(arithmetic="exact", entropy="os"))


def test_the_score_of_a_segment_is_the_mean_of_its_users() -> None:
    """So the scores of two segments, weighted by their users, add up to that of both."""
    whole, parts = learner(NoiseConfig(), 40), learner(NoiseConfig(), 40)
    scores = [(users, parts.learn(users)[SCORE.name]) for users in (3, 12, 5)]
    summed = sum(users * score for users, score in scores)
    assert summed == pytest.approx(20 * whole.learn(20)[SCORE.name], rel=1e-12)
    assert len({score for _, score in scores}) > 1


# Users' updates: each is the gradient of its user's own loss and independent of other episodes.

LOSS = DPPGConfig(discount=0.9, entropy_weight=0.01)
CASES: dict[str, tuple[str, DPPGConfig]] = {
    "discrete": ("CartPole-v1", LOSS),
    "continuous": ("Pendulum-v1", LOSS),
    "no critic": ("CartPole-v1", replace(LOSS, critic="none")),
}


def played(env_id: str, n: int = 7) -> tuple[Network, np.ndarray, Episodes]:
    task = Control(env_id, horizon=30).build()
    sizes = task.observation_size, 5, task.n_actions or task.action_size
    network, rng = Network(sizes, task.n_actions == 0), np.random.default_rng(1)
    theta = network.first(rng) + 0.3 * rng.standard_normal(network.dimension)
    return network, theta, task.play(task.vector(n), network.acting(theta, rng), 5)


def gradients_of(network: Network, theta: Float64Array, episodes: Episodes, loss: DPPGConfig) -> Float64Array:
    gains = advantages(episodes, loss.discount, centered=loss.critic == "device")
    return gradients(network, theta, episodes, gains, loss.entropy_weight)


def of_user(episodes: Episodes, user: int) -> Episodes:
    parts: Any = [array[user : user + 1] for array in episodes]
    return Episodes(*parts)


@pytest.mark.parametrize("case", CASES)
def test_an_update_depends_on_its_own_user_only(case: str) -> None:
    """Sensitivity rests on this: replacing one user changes one row."""
    env_id, loss = CASES[case]
    network, theta, episodes = played(env_id)
    together = gradients_of(network, theta, episodes, loss)
    for user in range(len(episodes.lengths)):
        assert together[user] == pytest.approx(gradients_of(network, theta, of_user(episodes, user), loss)[0], abs=1e-5)
    copies: Any = [array.copy() for array in episodes]
    other = Episodes(*copies)
    other.rewards[3], other.observations[3] = -other.rewards[3], 2.0 * other.observations[3]
    changed = np.abs(gradients_of(network, theta, other, loss) - together).max(axis=1) > 0.0
    assert np.flatnonzero(changed).tolist() == [3]


@pytest.mark.parametrize("case", CASES)
def test_a_gradient_is_that_of_policy_gradients(case: str) -> None:
    """Sum over steps of -(advantage) grad log pi, of the entropy, by autograd step by step."""
    env_id, loss = CASES[case]
    network, theta, episodes = played(env_id)
    found = gradients_of(network, theta, episodes, loss)
    gains = returns_to_go(episodes, loss.discount)
    for user in range(2):
        length, point = int(episodes.lengths[user]), torch.tensor(theta, dtype=torch.float32, requires_grad=True)
        own = gains[user, :length] - (gains[user, :length].mean() if loss.critic == "device" else 0.0)
        total = torch.zeros(())
        for t in range(length):
            action: Any = torch.as_tensor(episodes.actions[user, t])
            seen = torch.as_tensor(episodes.observations[user, t])
            log, entropy = network.evaluate(point, seen, action)
            total = total - float(own[t]) * log - loss.entropy_weight * entropy
        (total / length).backward()  # type: ignore[no-untyped-call]
        assert point.grad is not None
        assert found[user] == pytest.approx(point.grad.numpy(), rel=2e-3, abs=2e-4)


def test_networks_of_numpy_and_torch_are_the_same() -> None:
    """Also where log deviations, the last parameters, are out of bounds."""
    for env_id, added in (("CartPole-v1", 0.0), ("Pendulum-v1", 0.0), ("Pendulum-v1", 9.0), ("Pendulum-v1", -9.0)):
        network, theta, episodes = played(env_id)
        theta[-1] += added
        seen, rng = episodes.observations[:, 0], np.random.default_rng(0)
        outputs, logs = network.outputs(theta, seen)
        actions = outputs if network.continuous else np.arange(network.sizes[-1])
        log, *_ = network.evaluate(
            torch.as_tensor(theta), torch.as_tensor(seen[: len(actions)]).double(), torch.as_tensor(actions)
        )
        if network.continuous:
            expected = -(logs + 0.5 * np.log(2.0 * np.pi)).sum() * np.ones(len(seen))
        else:
            chances = outputs - np.log(np.exp(outputs).sum(axis=1, keepdims=True))
            expected = np.diag(chances[: len(actions)])
        assert log.numpy() == pytest.approx(expected, abs=1e-5)
        assert network.acting(theta, None)(seen).shape == network.acting(theta, rng)(seen).shape
        assert len(theta) == network.dimension == len(network.first(rng))


def test_discrete_actions_have_the_probabilities_of_the_policy() -> None:
    """Share of action 1 in 40,000 draws, within 6 deviations."""
    network = Network((2, 3))
    theta, seen = np.linspace(-1.0, 1.0, network.dimension), np.ones((40_000, 2), dtype=np.float32)
    logits = network.outputs(theta, seen[:1])[0][0]
    chances = np.exp(logits) / np.exp(logits).sum()
    drawn = network.acting(theta, np.random.default_rng(3))(seen)
    for action, chance in enumerate(chances):
        assert abs((drawn == action).mean() - chance) < 6.0 * np.sqrt(chance * (1.0 - chance) / len(seen))


def test_returns_go_on_with_the_mean_reward_where_time_ran_out() -> None:
    rewards = np.array([[1.0, 2.0, 0.0], [1.0, 1.0, 1.0], [1.0, 1.0, 0.0]])
    shape = np.zeros((3, 3, 1), dtype=np.float32), np.zeros((3, 3), dtype=np.int64)
    episodes = Episodes(*shape, rewards, np.array([2, 3, 2]), np.array([True, False, False]))
    discounted = [[2.0, 2.0, 0.0], [2.0, 2.0, 2.0], [2.0, 2.0, 0.0]]
    assert returns_to_go(episodes, 0.5) == pytest.approx(np.array(discounted))
    summed = [[3.0, 2.0, 0.0], [3.0, 2.0, 1.0], [2.0, 1.0, 0.0]]
    assert returns_to_go(episodes, 1.0) == pytest.approx(np.array(summed))


# An attack on one user's record refutes a careless variant, whose baseline has no noise, and not the algorithm.

EPSILON, DELTA, B, RUNS, ALPHA = 1.0, 1e-6, 100, 200, 1e-4
FAR = 1e8


class Careful(Rollout):
    """DPPG on records that are drawn here: one step each, observations near 1, one action is good."""

    world: int
    learner: Any

    def play(
        self, n: int, theta: Float64Array, rng: np.random.Generator, *, sampled: bool, users: bool, agents: Any = None
    ) -> Episodes:
        seen = np.zeros((n, 1, 4), dtype=np.float32)
        seen[:, 0, 0] = 1.0 + 0.1 * rng.standard_normal(n)
        actions = self.policy.acting(theta, rng)(seen[:, 0])[:, None]
        rewards = 1000.0 * (1.0 - 2.0 * actions) + rng.standard_normal((n, 1))
        if self.world and users and self.learner.privatizer.charged <= B:
            seen[0, 0, 0], rewards[0, 0] = FAR, -FAR
        made = Episodes(seen, actions, rewards, np.ones(n, dtype=np.int64), np.ones(n, dtype=bool))
        return self.carelessly(made) if users else made

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
    config = DPPGConfig(users_per_update=B, hidden="linear", critic="none", optimizer="sgd", learning_rate=1.0)
    env, streams = Control(horizon=1).build(), Streams(run, f"{kind.__name__} {world}")
    privacy = GradientPrivacy("jdp", EPSILON, DELTA, "clipped_gaussian", clip=2.0)
    learner = config.build(env, config.privatizer(env, privacy, 2 * B, streams), 2 * B, streams)
    rollout = kind(env, config.network(env), config)
    rollout.world, rollout.learner, learner._rollout = world, learner, rollout
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


@pytest.mark.slow
def test_a_careless_variant_is_refuted_and_the_algorithm_is_not() -> None:
    assert proved_against(Careful) <= EPSILON < proved_against(UnnoisedCritic)
