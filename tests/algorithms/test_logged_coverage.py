"""Coverage of logged_vi's certified bound by simulation: random logs with ends, cuts and missing observations."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dprl.algorithms.offline_vi import LoggedVIConfig, _PessimisticVIConfig
from dprl.envs import FiniteMDP, log_episodes
from dprl.privacy import CountPrivacy, Streams

BETA, LOGS, USERS, FALSE_ALARM = 1e-4, 40, 20_000, 1e-6
MODELS: dict[str, Any] = {
    "none": CountPrivacy("none"),
    "jdp": CountPrivacy("jdp", 20.0, 1e-6, families="one_hot", counter="auto"),
    "ldp": CountPrivacy("ldp", 100.0),
    "shuffle": CountPrivacy("shuffle", 20.0, 1e-6, smallest_block=1_000),
}


def random_mdp(draws: np.random.Generator, *, stationary: bool, common_start: bool) -> tuple[FiniteMDP, float, float]:
    """What log_episodes documents: raw states, the state after the end, perhaps a first step; and the reward range.

    Some actions end an episode; raw rewards are of any sign, and 0 after the end.
    """
    n, n_actions, horizon = int(draws.integers(1, 3)), int(draws.integers(1, 3)), int(draws.integers(2, 5))
    first = 0 if common_start else 1
    low, high = -draws.choice([0.0, 1.0]), draws.choice([0.0, 1.0])
    low, high = (low, high) if low < high else (-1.0, 0.0)
    steps = 1 if stationary else horizon
    law = np.zeros((steps, n + 1 + first, n_actions, n + 1 + first))
    law[:, :n, :, : n + 1] = draws.dirichlet(np.full(n + 1, 0.5), size=(steps, n, n_actions))
    law[:, n:, :, n] = 1.0
    mean = np.full(law.shape[:3], -low / (high - low))
    mean[:, :n] = draws.choice([0.0, 0.5, 1.0], size=(steps, n, n_actions))
    law, mean = (np.repeat(array, horizon // steps, axis=0) for array in (law, mean))
    start = np.zeros(n + 1 + first)
    if first:
        law, mean = np.concatenate([law[:1], law]), np.concatenate([mean[:1], mean])
        law[:, n + 1], mean[:, n + 1] = np.append(draws.dirichlet(np.ones(n)), [0.0, 0.0]), 0.0
    start[n + first] = 1.0
    start = np.eye(len(start))[n + 1 if first else 0]
    return FiniteMDP("truth", law, mean, start), low, high


def random_log(draws: np.random.Generator, mdp: FiniteMDP, first: int, low: float, high: float) -> Iterator[Any]:
    """Episodes of users who act at random.

    Each user's collector cuts at a time of its own or when a state is reached, and some observe more than H steps;
    final observations are missing at random where that is allowed, or always after an end.
    """
    n, horizon = mdp.n_states - 1 - first, mdp.horizon - first
    flagged, cut_state = bool(draws.integers(2)), int(draws.integers(n))
    longest = np.where(draws.random(USERS) < 0.5, horizon, draws.integers(1, horizon + 2, USERS))
    if not flagged:
        longest = np.maximum(longest, horizon)
    cdf = mdp.transitions.cumsum(axis=3)
    for limit in longest.tolist():
        state = 0 if not first else int(np.searchsorted(cdf[0, n + 1, 0], draws.random(), side="right"))
        seen, taken, paid, ended = [state], list[int](), list[float](), False
        while not ended and len(taken) < limit:
            step = first + min(len(taken), horizon - 1)
            action = int(draws.integers(mdp.n_actions))
            paid.append(low + (high - low) * float(draws.random() < mdp.rewards[step, state, action]))
            state = int(np.searchsorted(cdf[step, state, action], draws.random(), side="right"))
            taken.append(action)
            ended = state == n
            seen.append(0 if ended else state)  # collectors may write anything after an end
            if flagged and state == cut_state and limit % 2:
                break
        if ended or (len(taken) >= horizon and draws.random() < 0.5):
            seen = seen[: len(taken) + int(draws.integers(2))]
        flags = {"terminations": [False] * (len(taken) - 1) + [ended]} if flagged else {}
        yield {"observations": seen, "actions": taken, "rewards": paid, **flags}


@pytest.mark.slow
@pytest.mark.parametrize("stationary", [False, True])
def test_bounds_on_random_logs_exceed_the_value_in_at_most_a_beta_share(stationary: bool, tmp_path: Path) -> None:
    """Each bound may fail with probability BETA; more failures than `most` of LOGS mean that a model's bounds do not.

    For each trust model the probability of a false alarm is below FALSE_ALARM.
    """
    failures, shares = dict.fromkeys(MODELS, 0), {name: list[float]() for name in MODELS}
    for seed in range(LOGS):
        draws = np.random.default_rng((seed, int(stationary)))
        common = bool(draws.integers(2))
        mdp, low, high = random_mdp(draws, stationary=stationary, common_start=common)
        first = 0 if common else 1
        sizes: Any = {"n_states": mdp.n_states - 1 - first, "n_actions": mdp.n_actions, "horizon": mdp.horizon - first}
        log = random_log(draws, mdp, first, low, high)
        start = 0 if common else None
        spec = log_episodes(
            log, tmp_path / "log.npz", **sizes, stationary=stationary, start=start, reward_range=(low, high)
        )
        env, config = spec.build(), LoggedVIConfig(stationary=stationary, beta=BETA)
        for name, model in MODELS.items():
            streams = Streams(seed, name)
            # Not the privatizer of LoggedVIConfig, which refuses noise of a seed.
            privatizer = _PessimisticVIConfig.privatizer(config, env, model, USERS + 1, streams)  # type: ignore[arg-type]
            learner: Any = config.build(env, privatizer, USERS + 1, streams)  # type: ignore[arg-type]
            bound = learner.learn(USERS + 1)["lower_bound"]
            value = mdp.start_value(learner.policy)
            failures[name] += bound > value + 1e-9
            shares[name].append(bound / max(value, 1e-9))
    most = int(stats.binom.isf(FALSE_ALARM, LOGS, BETA))
    assert max(failures.values()) <= most
    assert np.median(shares["none"]) > 0.5
    assert min(np.median(found) for found in shares.values()) > 0.0, "a bound of 0 says nothing"
