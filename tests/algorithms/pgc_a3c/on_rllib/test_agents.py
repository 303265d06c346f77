"""Both lanes of agents: the same gradients, one private message each; and batches of runners that take too long."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from ray.exceptions import RayTaskError
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule

from dprl.algorithms.base import Float64Array
from dprl.algorithms.pgc.aggregator import Batch, LocalUpdate, Reply, report
from dprl.algorithms.pgc.on_rllib import algorithm
from dprl.algorithms.pgc.on_rllib.algorithm import _Workers
from dprl.algorithms.pgc.on_rllib.parameters import n_parameters, read_parameters, write_parameters
from dprl.algorithms.pgc_a3c.algorithm import PGCA3CConfig
from dprl.algorithms.pgc_a3c.gradient import loss_tables
from dprl.algorithms.pgc_a3c.on_rllib.algorithm import (
    PGCConfig,
    _Episode,
    episode_loss,
    loss_gradient,
    play,
    torch_update,
)
from dprl.envs.cartpole import CartPoleGravityEnv
from dprl.privacy import GradientPrivacy, GradientPrivatizer, Streams
from dprl.privacy.queries.gradients import GradientLayout
from dprl.privacy.randomness.bits import splitmix64
from tests.algorithms.pgc_a3c.cases import gradient_of, loss_of
from tests.algorithms.pgc_a3c.on_rllib.cases import Broken, Corridor, TwoHeads, actor_critic

# Both lanes of agents: the same gradients on the same episodes, one private message each, uninformative errors.

STREAMS = Streams(0, "test")
THETA = np.random.default_rng(1).normal(size=112)
LOSSES = [
    loss_of(0.99, 0.5, 0.01, "terminal", "discounted", False),
    loss_of(0.9, 0.7, 0.2, "literal", "printed", False),
    loss_of(0.99, 0.5, 0.1, "literal", "none", False),
    loss_of(0.95, 0.3, 0.05, "terminal", "printed", True),
    loss_of(1.0, 0.5, 0.0, "literal", "discounted", True),
]


def cart_pole_episode(seed: int, explore: float) -> _Episode:
    env = CartPoleGravityEnv()
    module = actor_critic(env, parameters=THETA)
    return play(env, module, explore, False, np.random.default_rng(seed), {"agent": seed})


def compiled_gradient(episode: _Episode, loss: PGCA3CConfig) -> Float64Array:
    """Return the compiled lane's gradient of an episode of the torch lane."""
    return gradient_of(episode.observations.astype(np.float64), episode.actions, THETA, loss_tables(loss, 200))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("seed", "explore"), [(1, 1.0), (2, 0.5), (3, 0.05)])
def test_both_lanes_have_the_same_gradient(loss: PGCA3CConfig, seed: int, explore: float) -> None:
    episode = cart_pole_episode(seed, explore)
    module = actor_critic(CartPoleGravityEnv()).double()
    write_parameters(module, THETA)
    found, expected = loss_gradient(module, episode, loss), compiled_gradient(episode, loss)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


def test_a_gradient_is_that_of_finite_differences() -> None:
    env = Corridor(box=True)
    module = actor_critic(env, parameters=np.random.default_rng(0).normal(size=80) / 3).double()
    episode = play(env, actor_critic(env), 1.0, False, np.random.default_rng(1), {})
    loss = loss_of(0.9, 0.5, 0.1, "literal", "discounted", True)
    theta, found = read_parameters(module), loss_gradient(module, episode, loss)

    def at(moved: Float64Array) -> float:
        write_parameters(module, moved)
        return float(episode_loss(module, episode, loss).detach())

    for k in range(0, 80, 7):
        step = np.zeros(80)
        step[k] = 1e-6
        assert (at(theta + step) - at(theta - step)) / 2e-6 == pytest.approx(found[k], rel=1e-5, abs=1e-6)


def two_heads() -> TwoHeads:
    torch.manual_seed(0)
    env = Corridor()
    return TwoHeads(observation_space=env.observation_space, action_space=env.action_space, model_config={})


def raw(dimension: int, n: int = 50) -> GradientPrivatizer:
    return GradientPrivacy("none", clip_norm="none").build(GradientLayout(dimension), n, STREAMS)


def batch_of(privatizer: GradientPrivatizer, k: int, parameters: Float64Array, first_slot: int = 1) -> Batch:
    slots = np.arange(first_slot, first_slot + k)
    return Batch(privatizer.lease(k), slots, parameters[np.newaxis], np.zeros(k, dtype=np.int64))


def reporting(update: LocalUpdate, privatizer: GradientPrivatizer, shows_scores: bool) -> Callable[[Batch], Reply]:
    client = privatizer.new_client()
    return lambda batch: report(update, batch, client, shows_scores=shows_scores)


def torch_agents(
    env: gym.Env[Any, Any], module: TorchRLModule, privatizer: GradientPrivatizer, **box: Any
) -> Callable[[Batch], Reply]:
    config = PGCA3CConfig(**{"reward": "literal"} | box)
    update = torch_update(config, env, module, (1, 2), Streams(0, "agents").key("env", "gravity"))
    return reporting(update, privatizer, shows_scores=True)


def test_every_agent_reports_its_own_gradient() -> None:
    module = two_heads()
    privatizer, theta = raw(n_parameters(module)), read_parameters(module)
    whole = torch_agents(Corridor(), module, privatizer)(batch_of(privatizer, 6, theta))
    assert whole[0].submissions.tolist() == [1, 2, 3, 4, 5, 6]
    estimates = privatizer.accept(whole[0])
    assert len({tuple(row) for row in estimates.tolist()}) == 6
    # The same in other batches with other agents.
    again = raw(n_parameters(module))
    agents = torch_agents(Corridor(), two_heads(), again)
    parts = [agents(batch_of(again, k, theta, first)) for k, first in ((1, 1), (3, 2), (2, 5))]
    assert np.array_equal(np.concatenate([again.accept(part[0]) for part in parts]), estimates)
    assert whole[1] is not None
    assert np.array_equal(np.concatenate([part[1] for part in parts if part[1] is not None]), whole[1])


def test_an_agent_whose_episode_breaks_reports_a_gradient_of_zero(capsys: pytest.CaptureFixture[str]) -> None:
    module = two_heads()
    privatizer = raw(n_parameters(module))
    reply = torch_agents(Broken(), module, privatizer)(batch_of(privatizer, 6, read_parameters(module)))
    zero = [not row.any() for row in privatizer.accept(reply[0])]
    key = Streams(0, "agents").key("env", "gravity")
    assert zero == [int(splitmix64(key, np.uint64(agent))) % 3 == 2 for agent in range(1, 7)]
    assert 0 < sum(zero) < 6
    assert capsys.readouterr() == ("", "")


def test_values_are_needed() -> None:
    class NoValues(TorchRLModule):
        def setup(self) -> None:
            self.layer = torch.nn.Linear(2, 2)

    env = Corridor()
    module = NoValues(observation_space=env.observation_space, action_space=env.action_space, model_config={})
    with pytest.raises(ValueError, match=r"^rl_module must have the ValueFunctionAPI, got NoValues; add"):
        PGCConfig().dry_run(env, module, Corridor)


# Assignment of batches, with simulated runners: refusals, and runners that take too long.


class Runners:
    """A fake of Ray, RLlib's runners and their clock. Runner 1 answers in time, runner 2 never."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error, self.now, self.killed, self.ill = error, 0.0, list[str](), list[int]()
        self._worker_manager = self
        self.batches = 0

    def num_remote_env_runners(self) -> int:
        return 2

    def healthy_env_runner_ids(self) -> list[int]:
        return [runner for runner in (1, 2) if runner not in self.ill]

    def actors(self) -> dict[int, Any]:
        return {runner: SimpleNamespace(report=self.report(runner), name=f"runner {runner}") for runner in (1, 2)}

    def report(self, runner: int) -> Any:
        def remote(batch: Any, spec: Any) -> str:
            self.batches += 1
            return f"{runner}: {self.batches}"

        return SimpleNamespace(remote=remote)

    def wait(self, pending: list[str], num_returns: int, timeout: float) -> tuple[list[str], list[str]]:
        ready = [each for each in pending if each.startswith("1")]
        self.now += 1.0 if ready else timeout + 0.001
        return ready, [each for each in pending if each not in ready]

    def get(self, reference: str) -> str:
        if self.error is not None:
            raise RayTaskError("report", "a traceback with private numbers", self.error)
        return reference

    def kill(self, actor: Any, no_restart: bool) -> None:
        assert not no_restart
        self.killed.append(actor.name)

    def set_actor_state(self, runner: int, healthy: bool) -> None:
        assert not healthy
        self.ill.append(runner)

    def monotonic(self) -> float:
        return self.now

    perf_counter = monotonic


def started(monkeypatch: pytest.MonkeyPatch, error: Exception | None = None) -> tuple[Runners, _Workers]:
    runners = Runners(error)
    monkeypatch.setattr(algorithm, "ray", runners)
    monkeypatch.setattr(algorithm, "time", runners)
    group: Any = runners
    book: Any = SimpleNamespace(privatizer=SimpleNamespace(new_client=None))
    return runners, _Workers(group, book, 2, 10.0)


def batch(*slots: int) -> Any:
    return SimpleNamespace(slots=np.array(slots))


@pytest.mark.parametrize("text", ["", " \n", "batch must be new, got an old one; send another"])
def test_a_refusal_is_one_line_and_hides_where_it_was(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    _, here = started(monkeypatch, ValueError(text))
    here.send(1, batch(1, 2))
    with pytest.raises(RuntimeError) as refused:
        here.outcomes()
    assert str(refused.value) == f"runner 1 refused a batch: {text.strip() or 'ValueError'}"
    assert refused.value.__context__ is None
    assert refused.value.__cause__ is None


def test_a_runner_that_takes_too_long_is_given_up_and_its_batches_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    runners, here = started(monkeypatch)
    here.send(2, batch(1, 2))
    here.send(2, batch(3))
    here.send(1, batch(4))
    assert [str(reply) for _, reply in here.outcomes()] == ["1: 3"]
    assert runners.killed == []
    lost = here.outcomes()
    assert [(slots.tolist(), reply) for slots, reply in lost] == [([1, 2], None), ([3], None)]
    assert runners.now == pytest.approx(10.0, abs=3.0)
    assert runners.killed == ["runner 2"]
    assert list(here.free()) == [1]
    assert here.outcomes() == []


def test_others_who_answer_do_not_hide_who_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    runners, here = started(monkeypatch)
    here.send(2, batch(1))
    lost: list[list[int]] = []
    for slot in range(2, 14):
        here.send(1, batch(slot))
        lost += [slots.tolist() for slots, reply in here.outcomes() if reply is None]
    assert lost == [[1]]
    assert runners.killed == ["runner 2"]
