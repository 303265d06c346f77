"""Episodes in any environment, and the default module: who chose the actions, their randomness, and parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule

from dprl.algorithms.pgc.on_rllib.env_runner import check_playable
from dprl.algorithms.pgc.on_rllib.parameters import n_parameters, read_parameters, write_parameters
from dprl.algorithms.pgc_a3c.on_rllib.algorithm import OBSERVED, PGCConfig, _Episode, play
from dprl.algorithms.pgc_a3c.on_rllib.module import ActorCriticModule
from tests.algorithms.pgc_a3c.on_rllib.cases import Corridor, TwoHeads, actor_critic

# Episodes in any environment: their agent, their end, who chose the actions, and their randomness.

GREEDY, EVENLY, SAMPLED = (0.0, False), (1.0, False), (0.0, True)
PARAMETERS = np.random.default_rng(3).normal(size=2 * 16 + 2 * 16 + 16)


def episode(env: Corridor, behaviour: tuple[float, bool], seed: int, **options: Any) -> _Episode:
    module = actor_critic(env, parameters=PARAMETERS)
    return play(env, module, *behaviour, np.random.default_rng(seed), options)


def same(one: _Episode, other: _Episode) -> bool:
    parts = ("observations", "actions", "rewards", "fallen")
    return all(np.array_equal(getattr(one, part), getattr(other, part)) for part in parts)


def test_the_environment_is_reported_whose_episode_it_is() -> None:
    env = Corridor()
    episode(env, GREEDY, 0, agent=17)
    assert env.options == {"agent": 17}


def test_an_episode_is_all_that_was_seen_and_done() -> None:
    env = Corridor()
    found = episode(env, EVENLY, 4)
    steps = len(found.rewards)
    assert found.observations.shape == (steps + 1, 2)
    assert found.observations[:, 1].tolist() == list(range(steps + 1))
    assert found.actions.tolist() == env.seen
    np.testing.assert_allclose(found.rewards, found.observations[1:, 0], rtol=1e-6)
    assert found.fallen == (found.observations[-1, 0] > 2.5)


@pytest.mark.parametrize("behaviour", [GREEDY, EVENLY, SAMPLED])
@pytest.mark.parametrize("box", [False, True])
def test_the_generator_decides_everything(behaviour: tuple[float, bool], box: bool) -> None:
    first = episode_of(box, behaviour, 7)
    torch.manual_seed(99)
    np.random.seed(99)  # must not matter
    assert same(first, episode_of(box, behaviour, 7))
    assert not same(first, episode_of(box, behaviour, 8))


def episode_of(box: bool, behaviour: tuple[float, bool], seed: int) -> _Episode:
    env = Corridor(box=box)
    torch.manual_seed(0)
    size = 2 * 16 + 2 * 16 + 16
    module = actor_critic(env, parameters=np.random.default_rng(3).normal(size=size))
    return play(env, module, *behaviour, np.random.default_rng(seed), {})


def test_greedy_actions_are_the_most_probable_ones() -> None:
    env = Corridor()
    module = actor_critic(env, parameters=PARAMETERS)
    found = play(env, module, *GREEDY, np.random.default_rng(2), {})
    logits = module.forward_inference({"obs": torch.as_tensor(found.observations[:-1])})["action_dist_inputs"]
    assert found.actions.tolist() == logits.argmax(dim=1).tolist()


def test_sampled_actions_have_the_policys_frequencies() -> None:
    # 400 first actions; a right sampler fails in 6 of 100,000 seeds.
    env = Corridor()
    module = actor_critic(env, parameters=np.zeros(80))
    with torch.no_grad():
        module.c.weight[0, 0], module.p.weight[1, 0] = 1.0, 1.0
    drawn = [play(env, module, *SAMPLED, np.random.default_rng(seed), {}) for seed in range(400)]
    first = [(found.observations[0, 0], found.actions[0]) for found in drawn]
    expected = np.array([1.0 / (1.0 + np.exp(-max(place, 0.0))) for place, _ in first])
    chosen = np.array([action for _, action in first])
    deviation = (chosen - expected).sum() / np.sqrt((expected * (1 - expected)).sum())
    assert abs(deviation) < 4.0


def test_actions_that_explore_are_even() -> None:
    # 5 sigma of about 1500 fair coins.
    actions = np.concatenate([episode(Corridor(), EVENLY, seed).actions for seed in range(350)])
    assert abs(actions.mean() - 0.5) < 5 * 0.5 / np.sqrt(len(actions))


def test_numbered_actions_may_begin_anywhere() -> None:
    env = Corridor(start=3)
    found = [episode(env, behaviour, seed) for behaviour in (GREEDY, EVENLY) for seed in range(5)]
    assert set(env.seen) == {3, 4}
    assert set(np.concatenate([each.actions for each in found])) == {0, 1}


def test_actions_in_a_box_reach_the_environment_within_it() -> None:
    env = Corridor(box=True)
    module = actor_critic(env, parameters=np.zeros(80))
    env.action_space = spaces.Box(4.0, 1004.0, (1,), np.float32)
    explored = play(env, module, 1.0, True, np.random.default_rng(0), {})
    assert (np.abs(explored.actions) <= 1.0).all()
    np.testing.assert_allclose(np.ravel(env.seen), 504.0 + 500.0 * np.ravel(explored.actions), rtol=1e-5)
    play(env, module, *SAMPLED, np.random.default_rng(0), {})
    with torch.no_grad():
        module.p.weight[:] = 100.0
        module.c.weight[:] = 1.0
    play(env, module, *GREEDY, np.random.default_rng(0), {})
    assert all(env.action_space.contains(action) for action in env.seen)


def test_an_evaluation_is_the_return_of_greedy_actions() -> None:
    env = Corridor()
    module = actor_critic(env, parameters=PARAMETERS)
    expected = play(Corridor(), module, *GREEDY, np.random.default_rng(6), {}).rewards.sum()
    assert PGCConfig().returns(env, module, Corridor, [6], sampled=False) == [expected]


class Recurrent(TwoHeads):
    def get_initial_state(self) -> dict[str, Any]:
        return {"h": torch.zeros(3)}


class Seeing(Corridor):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Dict({"place": spaces.Box(-1.0, 1.0, (1,))})  # type: ignore[assignment]


class Many(Corridor):
    def __init__(self) -> None:
        super().__init__()
        self.action_space = spaces.MultiDiscrete([2, 2])


def build(kind: type[TorchRLModule]) -> TorchRLModule:
    return kind(observation_space=Corridor().observation_space, action_space=spaces.Discrete(2), model_config={})


@pytest.mark.parametrize(
    ("env", "kind", "message"),
    [
        (Seeing, TwoHeads, "^env must observe arrays, got Dict.*; wrap it in FlattenObservation$"),
        (Many, TwoHeads, "^env must have actions in Discrete or Box, got MultiDiscrete"),
        (Corridor, Recurrent, "^rl_module must have no state, got a recurrent one"),
    ],
)
def test_what_cannot_be_played_is_refused(env: type[Corridor], kind: type[TorchRLModule], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_playable(env(), build(kind), *OBSERVED)


class Faulty(Corridor):
    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        raise AttributeError("positon")


class WithoutOptions(Corridor):
    def reset(self, *, seed: int | None = None) -> tuple[np.ndarray, dict[str, Any]]:  # type: ignore[override]
        return super().reset(seed=seed)


class Endless(Corridor):
    steps_taken = 0

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.steps_taken += 1
        observation, reward, *_, told = super().step(action)
        return observation, reward, False, False, told


def test_what_no_episode_could_do_comes_out_before_there_are_agents() -> None:
    def dry_run(env: Corridor) -> None:
        PGCConfig().dry_run(env, actor_critic(Corridor(box=isinstance(env.action_space, spaces.Box))), Corridor)

    dry_run(Corridor())
    dry_run(Corridor(box=True))
    with pytest.raises(AttributeError, match="positon"):
        dry_run(Faulty())
    with pytest.raises(TypeError, match="options"):
        dry_run(WithoutOptions())
    endless = Endless()
    dry_run(endless)
    assert 5 < endless.steps_taken < 100
    assert "agent" not in endless.options


# The default module: the network of the paper, the order of its parameters, and unsupported uses.

FOUR = spaces.Box(-1.0, 1.0, (4,), np.float32)
THETA = np.random.default_rng(1).normal(size=112)


def module(**config: Any) -> ActorCriticModule:
    return ActorCriticModule(observation_space=FOUR, action_space=spaces.Discrete(2), model_config=config)


def test_it_has_the_papers_layers_in_the_order_of_theta() -> None:
    shapes = [(name, tuple(parameter.shape)) for name, parameter in module().named_parameters()]
    assert shapes == [("c.weight", (16, 4)), ("p.weight", (2, 16)), ("v.weight", (1, 16))]
    assert n_parameters(module()) == 112


def test_parameters_are_written_and_read_back() -> None:
    net = module().double()
    write_parameters(net, THETA)
    assert np.array_equal(read_parameters(net), THETA)
    # By default rounded to float32.
    assert np.array_equal(read_parameters(module(parameters=THETA)), THETA.astype(np.float32))


@pytest.mark.parametrize(("shape", "outputs"), [((3,), 6), ((2, 3), 12), ((), 2)])
def test_box_actions_have_means_and_deviations(shape: tuple[int, ...], outputs: int) -> None:
    net = ActorCriticModule(
        observation_space=FOUR, action_space=spaces.Box(-1.0, 1.0, shape), model_config={"hidden": 5}
    )
    assert net.forward_inference({"obs": torch.zeros(2, 4)})["action_dist_inputs"].shape == (2, outputs)


def test_other_parameters_than_it_has_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^parameters must be float64\[112\] .* got shape \(111,\)"):
        module(parameters=THETA[1:])
