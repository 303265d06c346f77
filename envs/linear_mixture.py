"""Linear mixture MDPs of one agent or several: known features, unknown parameters, solved exactly."""

from __future__ import annotations

import hashlib
import math
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprl.atomic_files import write_arrays
from dprl.envs.base import Env, FiniteMDP
from dprl.envs.checks import require_distributions, require_integer, require_integers, table
from dprl.envs.gymnasium_ids import keep_digest
from dprl.envs.random_mdp import CONCENTRATION, ZERO_REWARD, dirichlet_rows
from dprl.envs.riverswim import RiverSwim

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

NOTHING = 1e-12
"""Probabilities below it are rounding of 0, and count as 0."""
ROUNDING = 1e-9
_MOST_ENTRIES, _MOST_AGENTS = 5 * 10**7, 8


class LinearMixtureMDP:
    """n agents with H steps and S states; all see the state, act at once, and maximise the mean of their rewards.

    The probability of the next state is <phi(s' | s, a), theta_h> for joint actions a, with features phi that learners
    know and parameters theta that they do not know. With n = 1 it is the model of UCRL-VTR.

    name: the registry name of the spec that built it. horizon: H. start: the first state of all episodes.
    rewards: float64 [n, S], or [n, S, A^n] where they depend on the joint action, in [0, 1]; row i is agent i's.
    reward_features: float64 [R, p], psi; learners estimate the mean reward of a state (R = S), or of a state and a
        joint action (R = S A^n, actions change fastest), as <psi, w>.
    Paper: [TH23] Assumptions 1 and 3.
    """

    kind: ClassVar[str] = "linear mixture MDP"

    name: str
    horizon: int
    start: int
    rewards: Floats
    reward_features: Floats

    @property
    def n_actions(self) -> int:
        """A, the number of actions of each agent."""
        raise NotImplementedError

    @property
    def dimension(self) -> int:
        """D, the length of phi."""
        raise NotImplementedError

    @property
    def n_agents(self) -> int:
        """n, the number of agents."""
        return int(self.rewards.shape[0])

    @property
    def n_states(self) -> int:
        """S, the number of states."""
        return int(self.rewards.shape[1])

    @property
    def n_joint_actions(self) -> int:
        """A^n, the number of joint actions."""
        return int(self.n_actions**self.n_agents)

    @cached_property
    def common_rewards(self) -> Floats:
        """The mean over agents, float64 [R]."""
        return np.asarray(self.rewards.mean(axis=0).reshape(-1))

    def joint_actions(self) -> Integers:
        """Return the actions [A^n, n] of all agents that each joint action stands for; agent 0 changes slowest."""
        joint = np.unravel_index(np.arange(self.n_joint_actions), (self.n_actions,) * self.n_agents)
        return np.stack(joint, axis=1).astype(np.int64, order="C")

    def identity(self) -> tuple[NDArray[np.generic], ...]:
        """Return arrays that differ between any two MDPs."""
        raise NotImplementedError

    def transitions(self) -> Floats:
        """Return all probabilities [L, S, A^n, S'] of the next state; L is H, or 1 if all steps are equal."""
        raise NotImplementedError

    def reachable(self) -> NDArray[np.bool_]:
        """Return the states [H, S] that an episode can be in at each step, under any actions."""
        raise NotImplementedError

    def after(self, step: int, state: int, actions: Integers, uniform: float) -> int:
        """Return the state that follows actions [n] at a step from 0 on, for a uniform draw in [0, 1)."""
        raise NotImplementedError

    def joint(self) -> FiniteMDP:
        """Return the dense MDP of a single agent that chooses joint actions and gets the common reward."""
        return self._dense(self.rewards.mean(axis=0))

    def _dense(self, rewards: Floats) -> FiniteMDP:
        """Return the dense MDP with these rewards [S] or [S, A^n]."""
        dense = self.transitions()
        paid = rewards if rewards.ndim == 2 else np.broadcast_to(rewards[:, None], dense.shape[1:3])
        every_step = (self.horizon, *dense.shape[1:])
        rows = np.broadcast_to(dense[0], every_step) if len(dense) == 1 else dense
        every_reward = np.broadcast_to(paid, (self.horizon, *paid.shape))
        return FiniteMDP(self.name, rows, every_reward, np.eye(self.n_states)[self.start])

    def value(self, policy: ArrayLike) -> Floats:
        """Return the exact value [H + 1, S] of a policy, the mean over agents; row H is 0.

        policy: integers [H, S], joint actions, or [H, S, n], an action of each agent; or probabilities [H, S, A^n] of
        joint actions, or [H, S, n, A] of agents who draw independently. Raises ValueError on anything else.
        """
        raise NotImplementedError

    def agent_values(self, policy: ArrayLike) -> Floats:
        """Return the exact values [n, H + 1, S] of each agent's own rewards (see `value`)."""
        raise NotImplementedError

    def optimum(self) -> tuple[Floats, Integers]:
        """Return the optimal value [H + 1, S] and optimal actions [H, S, n]; ties go to the lowest joint action."""
        raise NotImplementedError

    def worst(self) -> tuple[Floats, Integers]:
        """Return the least value [H + 1, S] and actions [H, S, n] that have it; ties go to the lowest joint action."""
        raise NotImplementedError

    def uniform_value(self) -> Floats:
        """Return the exact value [H + 1, S] of acting uniformly at random."""
        chances = np.full((self.horizon, self.n_states, self.n_agents, self.n_actions), 1.0 / self.n_actions)
        return self.value(chances)

    def start_value(self, policy: ArrayLike) -> float:
        """Return the exact expected return of a policy from the start, the mean over agents (see `value`)."""
        return float(self.value(policy)[0, self.start])

    def optimal_start_value(self) -> float:
        """Return the optimal expected return from the start, the mean over agents."""
        return float(self.optimum()[0][0, self.start])

    def checked_policy(self, policy: ArrayLike) -> Integers | Floats:
        """Return a policy as an array of one of the shapes of `value`. Raises ValueError."""
        array = np.asarray(policy)
        places = (self.horizon, self.n_states)
        whole = np.issubdtype(array.dtype, np.integer)
        if whole and array.shape in {places, (*places, self.n_agents)}:
            n_choices = self.n_joint_actions if array.ndim == 2 else self.n_actions
            if array.min() < 0 or array.max() >= n_choices:
                worst = array.min() if array.min() < 0 else array.max()
                raise ValueError(f"policy must hold actions in 0..{n_choices - 1}, got {worst}; pass action indices")
            return array
        if not whole and array.shape in {(*places, self.n_joint_actions), (*places, self.n_agents, self.n_actions)}:
            chances = table("policy", array, array.ndim)
            require_distributions("policy", chances)
            return chances
        raise ValueError(
            f"policy must have shape {places} or {(*places, self.n_agents)} (whole numbers, actions), "
            f"{(*places, self.n_joint_actions)} or {(*places, self.n_agents, self.n_actions)} (probabilities), "
            f"got {array.dtype} {array.shape}; pass one row per step"
        )


class LinearMixture(LinearMixtureMDP):
    """A linear mixture MDP with its features as one array, for any feature map.

    Args:
        features: float64 [S, A^n, S', D], phi(s' | s, a) for joint actions a; agent 0's action changes slowest.
        theta: float64 [D], or [H, D] with one row for each step.
        rewards: float64 [S], [S, A^n], or either with one more first axis of n agents, in [0, 1].
        horizon, start, name: see `LinearMixtureMDP`. n_agents: n.
        reward_features: psi; by default one-hot vectors.

    features: as given, read-only. kernels, cdf: float64 [L, S, A^n, S'], probabilities of the next state, and their
    sums. Raises ValueError for arrays that are not such an MDP, and unless they have the norms of Assumption 1:
    |theta_h| <= sqrt(D), and |phi_V(s, a)| <= H for all V: S -> [0, H].

    >>> stay, swap = np.eye(2), np.eye(2)[::-1]
    >>> features = np.stack([np.stack([stay, swap], axis=1), np.stack([swap, stay], axis=1)], axis=-1) / 2**0.5
    >>> mixture = LinearMixture(features, np.array([0.9, 0.1]) * 2**0.5, np.array([0.0, 1.0]), horizon=3)
    >>> round(mixture.optimal_start_value(), 2)  # an action works with probability 0.9
    1.8

    Paper: [TH23] Assumption 1.
    """

    def __init__(
        self,
        features: ArrayLike,
        theta: ArrayLike,
        rewards: ArrayLike,
        horizon: int,
        start: int = 0,
        n_agents: int = 1,
        reward_features: ArrayLike | None = None,
        name: str = "linear_mixture",
    ) -> None:
        require_integer("horizon", horizon, 1)
        require_integer("n_agents", n_agents, 1, _MOST_AGENTS)
        self.name, self.horizon, self.start = name, int(horizon), start
        self.features = table("features", features, 4)
        n_states, n_joint, after, dimension = self.features.shape
        self._n_actions = round(n_joint ** (1 / n_agents))
        if after != n_states or self._n_actions**n_agents != n_joint:
            rule = f"features must have shape [S, A^n, S, D] with n = {n_agents}"
            raise ValueError(f"{rule}, got {self.features.shape}; reshape them")
        _require_mixture_size(name, (horizon, n_states, n_joint), dimension)
        require_integer("start", start, 0, n_states - 1)
        found = table("theta", theta, np.ndim(theta))
        if found.shape not in ((dimension,), (1, dimension), (horizon, dimension)):
            raise ValueError(f"theta must have shape [D] = {(dimension,)} or [H, D], got {found.shape}; match features")
        self.theta = table("theta", np.atleast_2d(found), 2)
        self.rewards = _rewards_by_agent(rewards, (n_agents, n_states, n_joint))
        self.reward_features = checked_features(reward_features, self.common_rewards.size)
        # |phi_V(s, a)| <= H for all V: S -> [0, H], and |theta_h| <= sqrt(D).
        # Over such V, a number of phi_V is largest where V is H for the features of one sign, and 0 elsewhere.
        parts = np.maximum(self.features, 0.0).sum(axis=2), np.maximum(-self.features, 0.0).sum(axis=2)
        norms = np.linalg.norm(np.maximum(*parts), axis=2)
        s, a = np.unravel_index(int(norms.argmax()), norms.shape)
        if norms[s, a] > 1.0 + ROUNDING:
            wrong = f"features must give |phi_V| <= H, got up to {norms[s, a]:.6g} H at state {s} and joint action {a}"
            raise ValueError(f"{wrong}; divide all of them by that factor, and multiply theta by it")
        largest, most = np.linalg.norm(self.theta, axis=1).max(), math.sqrt(dimension)
        if largest > most * (1.0 + ROUNDING):
            raise ValueError(f"theta must have a norm of at most sqrt(D) = {most:.6g}, got {largest:.6g}; add features")
        self.kernels = np.einsum("satd,ld->lsat", self.features, self.theta)
        low = np.unravel_index(int(self.kernels.argmin()), self.kernels.shape)
        sums = self.kernels.sum(axis=3)
        off = np.unravel_index(int(np.abs(sums - 1.0).argmax()), sums.shape)
        for wrong, (h, s, a), got, rule in (
            (self.kernels[low] < -ROUNDING, low[:3], self.kernels[low], "be at least 0"),
            (abs(sums[off] - 1.0) > ROUNDING, off, sums[off], "sum to 1"),
        ):
            if wrong:
                found_at = f"{got:.6g} at step {h}, state {s} and joint action {a}"
                raise ValueError(f"<features, theta> must {rule}, got {found_at}; correct features or theta there")
        self.kernels = np.where(self.kernels > NOTHING, self.kernels, 0.0)
        self.kernels /= self.kernels.sum(axis=3, keepdims=True)
        for array in (self.features, self.theta, self.rewards, self.reward_features, self.kernels):
            array.setflags(write=False)

    def __reduce__(self) -> tuple[Callable[..., LinearMixture], tuple[object, ...]]:
        # Unpickled arrays are writeable; rebuilding makes them read-only again.
        theta = self.theta[0] if len(self.theta) == 1 else self.theta
        given = (self.features, theta, self.rewards, self.horizon, self.start, self.n_agents, self.reward_features)
        return LinearMixture, (*given, self.name)

    @property
    def n_actions(self) -> int:
        return int(self._n_actions)

    @property
    def dimension(self) -> int:
        return int(self.features.shape[3])

    @cached_property
    def _solved(self) -> FiniteMDP:
        return self._dense(self.rewards.mean(axis=0))

    def identity(self) -> tuple[NDArray[np.generic], ...]:
        return self.features, self.theta, self.rewards, self.reward_features, np.array([self.start, self.horizon])

    def transitions(self) -> Floats:
        return np.asarray(self.kernels)

    def reachable(self) -> NDArray[np.bool_]:
        reached = np.zeros((self.horizon, self.n_states), dtype=np.bool_)
        reached[0, self.start] = True
        possible = (self.kernels > 0.0).any(axis=2)
        for h in range(1, self.horizon):
            reached[h] = possible[min(h - 1, len(possible) - 1), reached[h - 1]].any(axis=0)
        return reached

    def after(self, step: int, state: int, actions: Integers, uniform: float) -> int:
        joint = np.ravel_multi_index(tuple(actions), (self.n_actions,) * self.n_agents)
        return int(np.searchsorted(self._solved.cdf[step, state, joint], uniform, side="right"))

    def value(self, policy: ArrayLike) -> Floats:
        return self._solved.value(self._joint_policy(policy))

    def agent_values(self, policy: ArrayLike) -> Floats:
        joint = self._joint_policy(policy)
        return np.stack([self._dense(rewards).value(joint) for rewards in self.rewards])

    def optimum(self) -> tuple[Floats, Integers]:
        values, joint = self._solved.optimum()
        return values, self.joint_actions()[joint]

    def worst(self) -> tuple[Floats, Integers]:
        values, joint = self._dense(1.0 - self.rewards.mean(axis=0)).optimum()
        return np.arange(self.horizon, -1, -1)[:, None] - values, self.joint_actions()[joint]

    def _joint_policy(self, policy: ArrayLike) -> Integers | Floats:
        """Return a policy as joint actions [H, S], or as their probabilities [H, S, A^n]."""
        found = self.checked_policy(policy)
        sizes = (self.n_actions,) * self.n_agents
        if found.ndim == 4:
            chances = np.ones((*found.shape[:2], 1))
            for i in range(self.n_agents):
                chances = (chances[..., :, None] * found[:, :, i, None, :]).reshape(*found.shape[:2], -1)
            return chances
        if found.ndim == 3 and np.issubdtype(found.dtype, np.integer):
            return np.asarray(np.ravel_multi_index(tuple(np.moveaxis(found, 2, 0)), sizes))
        return found


def checked_features(given: ArrayLike | None, n_rows: int) -> Floats:
    """Return a copy of the reward features [R, p], one-hot vectors for None. Raises ValueError."""
    if given is None:
        return np.eye(n_rows)
    features = table("reward_features", given, 2)
    if features.shape[0] != n_rows:
        rule = f"reward_features must have one row for each of {n_rows} rewards"
        raise ValueError(f"{rule}, got {features.shape[0]}; match rewards")
    if features.min() < 0.0:
        raise ValueError(f"reward_features must be at least 0, got {features.min():g}; shift or drop that feature")
    largest = features.sum(axis=1).max()
    if largest > 1.0 + NOTHING:
        raise ValueError(f"reward_features must sum to at most 1 over each row, got {largest:g}; scale them down")
    rank = int(np.linalg.matrix_rank(features))
    if rank < features.shape[1]:
        rule = f"reward_features must have full column rank {features.shape[1]}"
        raise ValueError(f"{rule}, got rank {rank}; drop the columns that others add up to")
    return features


def _rewards_by_agent(given: ArrayLike, sizes: tuple[int, int, int]) -> Floats:
    """Return rewards with one row for each agent, [n, S] or [n, S, A^n]. Raises ValueError."""
    n_agents, n_states, n_joint = sizes
    found: Floats = table("rewards", given, np.ndim(given))
    if found.shape in ((n_states,), (n_states, n_joint)):
        found = np.broadcast_to(found, (n_agents, *found.shape))
    if found.shape not in ((n_agents, n_states), (n_agents, n_states, n_joint)):
        shapes = f"[S] = {(n_states,)} or [S, A^n] = {(n_states, n_joint)}, or one of these for each agent"
        raise ValueError(f"rewards must have shape {shapes}, got {found.shape}; match features")
    rewards = table("rewards", found, found.ndim)
    if rewards.min() < 0.0 or rewards.max() > 1.0:
        worst = rewards.min() if rewards.min() < 0.0 else rewards.max()
        raise ValueError(f"rewards must lie in [0, 1], got {worst:g}; rescale the rewards")
    return rewards


def mixture_of(kernels: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return (features, theta) of n agents who each mix d kernels, scaled as Assumption 1 requires.

    P(s' | s, a) = (1/n) sum_i sum_j weights[i, j] kernels[i, j, s, a_i, s']. kernels: float64 [n, d, S, A, S'];
    weights: float64 [n, d], nonnegative with rows that sum to 1.

    >>> features, theta = mixture_of(np.full((2, 3, 4, 5, 4), 0.25), np.full((2, 3), 1 / 3))
    >>> features.shape, np.allclose(features @ theta, 0.25)
    ((4, 25, 4, 6), True)
    """
    n, d, _, n_actions, _ = kernels.shape
    joint = np.stack(np.unravel_index(np.arange(n_actions**n), (n_actions,) * n), axis=1)
    parts = [kernels[i, j][:, joint[:, i]] for i in range(n) for j in range(d)]
    root = math.sqrt(n * d)
    return np.stack(parts, axis=-1) / root, weights.reshape(-1) * (root / n)


@dataclass(frozen=True)
class RandomMixture:
    """Random linear mixture MDP: each agent mixes `dimension` random kernels, with weights that learners do not know.

    P(s' | s, a) = (1/n) sum_i sum_j w_ij P_ij(s' | s, a_i): the kernels P_ij, public features, are drawn like the rows
    of random_mdp, and the weights w_i uniformly from the simplex. Rewards of (s, a) are 0 with probability 0.85, else
    uniform on [0, 1], and common to all agents. Episodes start in state 0.

    n_states, n_actions (of each agent), horizon: at least 1. n_agents: 1 to 8. dimension: d, kernels of each agent, so
    phi has n d numbers. seed: at least 0; equal seeds give equal MDPs, bit for bit. Raises ValueError on other values.

    >>> RandomMixture(n_states=6, n_agents=2, n_actions=3, dimension=2).build().features.shape
    (6, 9, 6, 4)
    """

    name: ClassVar[str] = "linear_mixture"
    builds: ClassVar[type[Env]] = LinearMixture

    n_states: int = 10
    n_actions: int = 3
    n_agents: int = 1
    dimension: int = 4
    horizon: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        require_integers(self, n_states=1, n_actions=1, n_agents=1, dimension=1, horizon=1, seed=0)
        require_integer("n_agents", self.n_agents, 1, _MOST_AGENTS)
        _require_mixture_size(self.name, self.sizes, self.n_features)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """H, S, and the number of joint actions: known before anything is built."""
        return int(self.horizon), int(self.n_states), int(self.n_actions) ** int(self.n_agents)

    @property
    def n_features(self) -> int:
        """D, the length of phi."""
        return int(self.n_agents) * int(self.dimension)

    def build(self) -> LinearMixture:
        """Draw the MDP."""
        generator = np.random.default_rng(self.seed)
        n, d, n_states = int(self.n_agents), int(self.dimension), int(self.n_states)
        kernels = dirichlet_rows(generator, CONCENTRATION, (n, d, n_states, int(self.n_actions), n_states))
        features, theta = mixture_of(kernels, generator.dirichlet(np.ones(d), size=n))
        rewards = generator.random(features.shape[:2])
        rewards[generator.random(rewards.shape) < ZERO_REWARD] = 0.0
        return LinearMixture(features, theta, rewards, int(self.horizon), 0, n, name=self.name)


@dataclass(frozen=True)
class MixtureRiverSwim:
    """RiverSwim as a linear mixture: the chances of swimming against the current are unknown, its shape is known.

    The same MDP as riverswim, with 8 features: action 0 goes left for certain; action 1 goes back, stays or goes on
    with three unknown chances in between, two at the first state and two at the last.

    n_states: at least 3. horizon: at least 1. Raises ValueError on other values.

    >>> round(MixtureRiverSwim().build().optimal_start_value(), 4)
    3.3973
    """

    name: ClassVar[str] = "mixture_riverswim"
    builds: ClassVar[type[Env]] = LinearMixture
    n_features: ClassVar[int] = 8

    n_states: int = 6
    horizon: int = 20

    def __post_init__(self) -> None:
        require_integers(self, n_states=3, horizon=1)
        _require_mixture_size(self.name, self.sizes, self.n_features)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """H, S, and the number of actions: known before anything is built."""
        return int(self.horizon), int(self.n_states), 2

    def build(self) -> LinearMixture:
        """Build the MDP."""
        river = RiverSwim(n_states=self.n_states, horizon=self.horizon).build()
        last = int(self.n_states) - 1
        features, theta = np.zeros((last + 1, 2, last + 1, 8)), np.ones(8)
        for s in range(last + 1):
            features[s, 0, max(s - 1, 0), 0] = 1.0
            first = 1 if s == 0 else 3 if s == last else 5
            chances = river.transitions[0, s, 1]
            for j, after in enumerate(np.flatnonzero(chances)):
                features[s, 1, after, first + j], theta[first + j] = 1.0, chances[after]
        norm = math.sqrt(3.0)  # three features of a pair are 1 at most
        return LinearMixture(features / norm, theta * norm, river.rewards[0], int(self.horizon), name=self.name)


@dataclass(frozen=True)
class MixtureFile:
    """A linear mixture MDP of your own, from a file that `dprl.from_arrays` writes.

    file: path of an .npz with the arguments of `LinearMixture`. source: digest of the file, by default as it is now.
    Raises ValueError if there is no such file, or if it has another digest.
    """

    name: ClassVar[str] = "mixture_file"
    builds: ClassVar[type[Env]] = LinearMixture

    file: str = "mixture.npz"
    source: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if not Path(self.file).is_file():
            raise ValueError(f"file must be an .npz of dprl.from_arrays, got no file {self.file!r}; give its path")
        keep_digest(self, "source", self.file, hashlib.sha256(Path(self.file).read_bytes()).hexdigest()[:12])

    @property
    def sizes(self) -> tuple[int, int, int]:
        """H, S, and the number of joint actions."""
        mixture = self.build()
        return mixture.horizon, mixture.n_states, mixture.n_joint_actions

    def build(self) -> LinearMixture:
        """Read the file. Raises ValueError if it is invalid."""
        try:
            with np.load(self.file, allow_pickle=False) as loaded:
                found: dict[str, Any] = {key: loaded[key] for key in _ARGUMENTS}
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error):
            rule = "file must be an undamaged .npz of dprl.from_arrays"
            raise ValueError(f"{rule}, got {self.file!r}; write it again") from None
        whole = {key: int(found.pop(key)) for key in ("horizon", "start", "n_agents")}
        return LinearMixture(**found, **whole, name=self.name)


_ARGUMENTS = "features", "theta", "rewards", "horizon", "start", "n_agents"


def from_arrays(
    file: str | Path,
    *,
    features: ArrayLike,
    theta: ArrayLike,
    rewards: ArrayLike,
    horizon: int,
    start: int = 0,
    n_agents: int = 1,
) -> MixtureFile:
    """Write a linear mixture MDP to an .npz file, and return the `env` of an experiment with it.

    See `LinearMixture` for the arguments; `mixture_of` makes features and theta of kernels that agents mix. Raises
    ValueError for arrays that are not such an MDP, before anything is written.
    """
    path = Path(file)
    if path.suffix != ".npz" or not path.parent.is_dir():
        raise ValueError(f"file must be an .npz in a folder that exists, got {str(file)!r}; write e.g. mixture.npz")
    made = LinearMixture(features, theta, rewards, horizon, start, n_agents)
    write_arrays(path, {key: np.asarray(getattr(made, key)) for key in _ARGUMENTS})
    return MixtureFile(str(path))


def _require_mixture_size(name: str, sizes: tuple[int, int, int], dimension: int) -> None:
    _, n_states, n_joint = sizes
    if n_states**2 * n_joint * dimension > _MOST_ENTRIES:
        raise ValueError(
            f"{name} needs features of at most {_MOST_ENTRIES} entries, got "
            f"{n_states}^2 states x {n_joint} joint actions x {dimension} features; lower n_states, n_agents, "
            "n_actions or dimension"
        )
