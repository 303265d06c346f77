"""Policies as RLModules: distributions of a batch, checkpoints, evaluation by RLlib, examples of docs/policies.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from ray.rllib.core.rl_module.rl_module import RLModule

from dprl.envs import RiverSwim
from dprl.platform.errors import UserError
from dprl.platform.policies import TabularPolicy, load_policy
from dprl.platform.policies.rl_module import TabularRLModule
from tests.platform.policies.cases import ran, written

ENV = RiverSwim(n_states=4, horizon=12)
PLACES = np.array([(h, s) for h in range(12) for s in range(4)])


def stochastic_table() -> NDArray[np.float64]:
    table = np.random.default_rng(0).dirichlet((1.0, 3.0), size=(12, 4))
    table[4, 0] = (0.0, 1.0)
    return table


def distribution(module: RLModule, places: NDArray[np.int64], explore: bool) -> NDArray[np.float64]:
    """Return the probabilities with which RLlib's connectors draw."""
    batch = {"obs": torch.as_tensor(places)}
    output = module.forward_exploration(batch) if explore else module.forward_inference(batch)
    name = "get_exploration_action_dist_cls" if explore else "get_inference_action_dist_cls"
    drawn_with = getattr(module, name)().from_logits(output["action_dist_inputs"])
    if not explore:
        drawn_with = drawn_with.to_deterministic()
    logarithms = [drawn_with.logp(torch.tensor(action)).numpy() for action in (0, 1)]
    return np.exp(np.stack(logarithms, axis=-1, dtype=np.float64))


@pytest.mark.parametrize("explore", [False, True])
def test_the_module_has_the_policys_probabilities(explore: bool) -> None:
    policy = TabularPolicy(stochastic_table(), ENV)
    found = distribution(TabularRLModule.from_policy(policy), PLACES, explore)
    # float32 logarithms.
    assert np.allclose(found, [policy.probabilities(place) for place in PLACES], rtol=1e-6, atol=0.0)


@pytest.mark.parametrize("explore", [False, True])
def test_a_deterministic_policy_never_takes_another_action(explore: bool) -> None:
    table = np.random.default_rng(1).integers(2, size=(12, 4))
    found = distribution(TabularRLModule.from_policy(TabularPolicy(table, ENV)), PLACES, explore)
    assert np.array_equal(found, np.eye(2)[table].reshape(-1, 2))


def test_the_observation_at_the_end_of_an_episode_is_answered() -> None:
    module = TabularRLModule.from_policy(TabularPolicy(stochastic_table(), ENV))
    assert distribution(module, np.array([(12, 3)]), explore=False) == pytest.approx(np.array([[0.5, 0.5]]))


def test_a_checkpoint_is_the_same_module(tmp_path: Path) -> None:
    module = TabularRLModule.from_run(written(tmp_path, stochastic_table()[None], ENV))
    restored = RLModule.from_checkpoint(module.save_to_path(tmp_path / "checkpoint"))
    assert type(restored) is TabularRLModule
    assert restored.observation_space == module.observation_space == load_policy(tmp_path).make_env().observation_space
    for explore in (False, True):
        assert np.array_equal(distribution(restored, PLACES, explore), distribution(module, PLACES, explore))


def test_the_module_is_not_trained() -> None:
    module = TabularRLModule.from_policy(TabularPolicy(stochastic_table(), ENV))
    assert not any(parameter.requires_grad for parameter in module.parameters())
    with pytest.raises(NotImplementedError, match=r"it cannot be trained"):
        module.forward_train({"obs": torch.as_tensor(PLACES)})


def test_bad_input_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="must be the folder of a finished cell"):
        TabularRLModule.from_run(tmp_path)


@pytest.mark.slow
def test_the_examples_of_the_guide_run_on_a_real_cell(fixed_draws: None, root: Path, tmp_path: Path) -> None:
    ran(tmp_path / "cell", ENV)
    text = (root / "docs" / "policies.md").read_text().partition("# Policies of Markov games")[0]
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert [len([line for line in block.splitlines() if line]) for block in blocks] == [3, 6]
    names: dict[str, Any] = {}
    for block in blocks:
        here = re.sub(r'"dprl_runs/[^"]*"', repr(str(tmp_path / "cell")), block)
        here = here.replace("models/first_try", str(tmp_path / "models" / "first_try"))
        exec(here, names)  # code from the project's own page
    policy = names["policy"]
    assert names["action"] == policy.table[0, 2]
    assert (tmp_path / "models" / "first_try" / "metadata.json").is_file()
