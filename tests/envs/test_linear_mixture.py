"""Linear mixture MDPs with a table of features: what is accepted, exact values, and the file of one's own."""

from __future__ import annotations

import itertools
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dprl.envs import LinearMixture, MixtureFile, MixtureRiverSwim, RandomMixture, RiverSwim, from_arrays, mixture_of

STAY, SWAP = np.eye(2), np.eye(2)[::-1]
FEATURES = np.stack([np.stack([STAY, SWAP], axis=1), np.stack([SWAP, STAY], axis=1)], axis=-1) / 2**0.5
THETA, REWARDS = np.array([0.9, 0.1]) * 2**0.5, np.array([0.0, 1.0])
STEPS = np.array([[0.9, 0.1], [0.2, 0.8]]) * 2**0.5


@pytest.mark.parametrize("n", [1, 2, 3])
def test_values_are_those_of_enumerated_policies(n: int) -> None:
    mdp = RandomMixture(n_states=2, n_actions=2, n_agents=n, dimension=2, horizon=2, seed=n).build()
    assert mdp.features.shape == (2, 2**n, 2, 2 * n)
    np.testing.assert_allclose(mdp.transitions()[0], mdp.features @ mdp.theta[0], atol=1e-12)
    policies = [np.reshape(one, (2, 2)) for one in itertools.product(range(2**n), repeat=4)]
    values = np.array([mdp.value(policy) for policy in policies])
    np.testing.assert_allclose(mdp.optimum()[0], values.max(axis=0), atol=1e-12)
    np.testing.assert_allclose(mdp.worst()[0], values.min(axis=0), atol=1e-12)
    policy = policies[7]
    chances = np.eye(2)[mdp.joint_actions()[policy]]
    np.testing.assert_allclose(mdp.value(chances), values[7], atol=1e-12)
    np.testing.assert_allclose(mdp.value(mdp.joint_actions()[policy]), values[7], atol=1e-12)
    np.testing.assert_allclose(mdp.agent_values(policy).mean(axis=0), values[7], atol=1e-12)
    again = pickle.loads(pickle.dumps(mdp))
    assert all(map(np.array_equal, again.identity(), mdp.identity()))
    assert not again.features.flags.writeable


def test_agents_have_rewards_of_their_own() -> None:
    kernels = np.stack([np.stack([STAY, SWAP], axis=1)] * 2)[:, None]
    features, theta = mixture_of(kernels, np.ones((2, 1)))
    own = np.random.default_rng(0).random((2, 2, 4))
    mdp = LinearMixture(features, theta, own, 3, n_agents=2)
    policy = np.zeros((3, 2), dtype=int)
    for values, rewards in zip(mdp.agent_values(policy), own, strict=True):
        np.testing.assert_allclose(values, LinearMixture(features, theta, rewards, 3, n_agents=2).value(policy))


def test_each_step_may_have_its_theta() -> None:
    mdp = LinearMixture(FEATURES, STEPS, REWARDS, 2)
    assert mdp.transitions()[:, 0, 0, 0].tolist() == pytest.approx([0.9, 0.2])
    after = [mdp.after(h, 0, np.array([0]), 0.5) for h in range(2)]
    assert after == [0, 1]


def test_the_river_is_riverswim() -> None:
    spec = MixtureRiverSwim(n_states=5, horizon=7)
    found, expected = spec.build().joint(), RiverSwim(n_states=5, horizon=7).build()
    np.testing.assert_allclose(found.transitions, expected.transitions, atol=1e-12)
    np.testing.assert_array_equal(found.rewards, expected.rewards)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "shape": ({"features": FEATURES[:, :, :1]}, r"^features must have shape \[S, A\^n, S, D\] with n = 1, got"),
    "agents": ({"n_agents": 3}, "^features must have shape .* with n = 3, got"),
    "sums": ({"theta": THETA * 0.9}, r"<features, theta> must sum to 1, got 0.9 at step 0, state 0 and joint action 0"),
    "negative": ({"theta": np.array([1.2, -0.2]) * 2**0.5}, "theta must have a norm|must be at least 0, got -0.2 at"),
    "long features": ({"features": FEATURES * 2, "theta": THETA / 2}, r"^features must give .* <= H, got up to 2 H"),
    "long theta": ({"features": FEATURES / 4, "theta": THETA * 4}, "^theta must have a norm of at most"),
    "theta": ({"theta": np.ones(3)}, r"^theta must have shape \[D\]"),
    "rewards": ({"rewards": np.ones(3)}, r"^rewards must have shape \[S\]"),
    "large rewards": ({"rewards": np.array([0.0, 2.0])}, r"^rewards must lie in \[0, 1\], got 2"),
    "start": ({"start": 2}, "^start must be a whole number from 0 to 1, got 2"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_no_such_mdp_is_refused(case: str, tmp_path: Path) -> None:
    changes, rule = WRONG[case]
    given: dict[str, Any] = {"features": FEATURES, "theta": THETA, "rewards": REWARDS, "horizon": 3, **changes}
    for make in (LinearMixture, lambda **each: from_arrays(tmp_path / "own.npz", **each)):
        with pytest.raises(ValueError, match=rule):
            make(**given)
    assert not [*tmp_path.iterdir()]


def test_arrays_of_ones_own_are_an_environment(tmp_path: Path) -> None:
    file = tmp_path / "own.npz"
    spec = from_arrays(file, features=FEATURES, theta=STEPS, rewards=REWARDS, horizon=2)
    assert all(map(np.array_equal, spec.build().identity(), LinearMixture(FEATURES, STEPS, REWARDS, 2).identity()))
    assert spec == MixtureFile(str(file))
    from_arrays(file, features=FEATURES, theta=THETA, rewards=REWARDS, horizon=2)
    with pytest.raises(ValueError, match=r"^source must be [0-9a-f]{12}, the digest of .*own.npz as it is now"):
        MixtureFile(str(file), spec.source)
    file.write_bytes(b"no archive")
    with pytest.raises(ValueError, match=r"^file must be an undamaged .npz of dprl.from_arrays"):
        MixtureFile(str(file)).build()
    with pytest.raises(ValueError, match=r"^file must be an .npz of dprl.from_arrays, got no file"):
        MixtureFile(str(tmp_path / "none.npz"))
