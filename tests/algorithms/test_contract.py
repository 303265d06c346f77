"""Contract of every tabular algorithm under every trust model, beside that of all learners."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from dprl.algorithms import ALGORITHMS, DPNashVIConfig
from dprl.envs import Env, FiniteMDP, MarkovGame, RandomGame, RiverSwim
from dprl.privacy import CountPrivacy, Streams
from dprl.privacy.queries.counts import release, send_and_aggregate
from tests.algorithms.cases import (
    EACH,
    EACH_ONLINE,
    GROWTHS,
    ONLINE,
    PRACTICAL,
    PRIVACY,
    TABULAR,
    TRUST,
    Environments,
    Learner,
    State,
    deployable,
    interpreted,
    same_state,
)
from tests.grids import paired
from tests.without_compiler import printed_both_ways

# Of each setting, another value and the others that let it matter.
CHANGES: dict[str, tuple[Any, dict[str, Any]]] = {
    "bonus_scale": (1.0, PRACTICAL), "precision_scale": (1.0, PRACTICAL), "beta": (0.5, PRACTICAL),
    "replan_growth": (0.3, PRACTICAL), "simulation": ("users", {"replan_growth": 0.3}),
    "preset": ("proved", {"bonus_scale": 0.02}),
    "counts": ("costs", PRACTICAL), "known_transitions": (True, PRACTICAL),
    "alpha": (3.0, PRACTICAL), "stationary": (True, PRACTICAL),
    "exploration": (0.5, PRACTICAL),
    "constants": ("proved", PRACTICAL), "c1": (2.0, PRACTICAL), "c2": (2.0, PRACTICAL),
}  # fmt: skip
# Of algorithms where others do; None for settings that admit one value only.
OWN_CHANGES: dict[str, dict[str, tuple[Any, dict[str, Any]] | None]] = {
    **{name: {"preset": ("tuned", {})} for name in ("private_ucb_vi", "private_ucb_po", "pucb", "ldp_obi", "dp_ucbvi")},
    "dp_nash_vi": {"preset": None},
    "offline_vi": {"simulation": ("users", {}), "replan_growth": None, "preset": None},
    "random_vi": {"beta": None},
}


@EACH
def test_every_setting_changes_a_run(name: str, learner: Learner, envs: Environments[Any]) -> None:
    changes = CHANGES | OWN_CHANGES.get(name, {})
    episodes = 1000 if name in ONLINE else 4000

    def results(settings: dict[str, Any]) -> tuple[Mapping[str, float], dict[str, bytes]]:
        run = learner(envs.small, episodes, CountPrivacy("jdp", 50.0), name=name, **settings)
        return run.learn(episodes), {key: array.tobytes() for key, array in run.policies.items()}

    bases: dict[str, Any] = {}
    for key in (field.name for field in dataclasses.fields(ALGORITHMS[name])):  # type: ignore[arg-type]
        if (change := changes[key]) is not None:
            value, base = change
            if str(base) not in bases:
                bases[str(base)] = results(base)
            assert results({**base, key: value}) != bases[str(base)], key


@EACH
@TRUST
def test_policies_are_valid_at_every_moment(privacy: Any, name: str, learner: Learner, envs: Environments[Any]) -> None:
    algorithm = learner(envs.random, 300, privacy, name=name, **PRACTICAL)
    for _ in range(60):
        for policy in (algorithm.policy, algorithm.plan(algorithm.privatizer.release())):
            assert deployable(envs.random, policy)
            policy[:] = 0  # a copy, so that later checks are not affected
        algorithm.learn(5)
    assert deployable(envs.random, algorithm.policy)


@EACH_ONLINE
@TRUST
def test_plan_returns_the_next_episodes_policy_and_changes_nothing(
    privacy: Any, name: str, learner: Learner, envs: Environments[Any]
) -> None:
    # With almost no bonus every algorithm's policy changes within so few episodes.
    algorithm = learner(envs.random, 300, privacy, name=name, bonus_scale=1e-3, precision_scale=1e-3)
    seen = []
    for _ in range(40):
        before = algorithm.state_dict()
        expected = algorithm.plan(algorithm.privatizer.release())
        assert same_state(before, algorithm.state_dict())
        algorithm.learn(1)
        assert np.array_equal(algorithm.policy, expected)
        seen.append(expected.tobytes())
        algorithm.learn(5)
    assert len(set(seen)) > 1


@paired(
    name=ONLINE,
    bonus_scale=[1.0, 0.02],
    privacy=[
        CountPrivacy("jdp", 4e4, families="separate", counter="binary_tree", mechanism="discrete_laplace"),
        CountPrivacy("ldp", 4e3, families="separate", mechanism="discrete_laplace"),
    ],
)
def test_no_noise_is_the_non_private_algorithm(
    privacy: Any, bonus_scale: float, name: str, learner: Learner, envs: Environments[Any]
) -> None:
    """A trust model may change only released counts and error bounds; without noise, every bit must agree.

    Integer noise of this scale is 0 except with probability e^-300; rewards of 0 and 1 are unchanged by coins.
    """
    scales = {"bonus_scale": bonus_scale, "precision_scale": 0.0}
    private, plain = (learner(envs.tiny, 2000, trust, name=name, **scales) for trust in (privacy, CountPrivacy("none")))
    for _ in range(20):
        assert private.learn(100) == plain.learn(100)
        assert np.array_equal(private.policy, plain.policy)
        ours, theirs = (algorithm.privatizer.release().values for algorithm in (private, plain))
        assert np.array_equal(ours, theirs)
    noisy, plain = (
        learner(envs.tiny, 2000, trust, name=name, **PRACTICAL) for trust in (CountPrivacy(privacy.model, 1.0), None)
    )
    assert noisy.learn(2000) != plain.learn(2000)


@pytest.mark.parametrize("growth", GROWTHS)
@pytest.mark.parametrize("name", ONLINE)
@TRUST
def test_users_reach_the_learner_through_released_counts_only(
    privacy: Any, name: str, growth: float, learner: Learner, envs: Environments[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With different users but equal releases, policy, regret and saturation must be equal bit for bit."""
    names = interpreted(name, monkeypatch)
    poison: State = {}

    def blind(kernel: Callable[..., None]) -> Callable[..., None]:
        def blinded(channel: Any, *record: Any) -> None:
            memory = {"message": channel.message, "totals": channel.totals, "rows": channel.counter.rows}
            for field, worth in poison.items():
                memory[field][:] = worth
            if record:
                cells, amounts, user = record
                record = np.full_like(cells, user % 7), np.full_like(amounts, 0.5), user
            kernel(channel, *record)
            # Between two releases the server's unreleased memory differs, too.
            if channel.needed is channel.totals:
                memory.pop("totals")
            poison.update({field: array.copy() for field, array in memory.items()})
            for array in memory.values():
                array.flat = world + np.arange(array.size) / 7

        return blinded

    monkeypatch.setitem(names, "release", blind(release))
    monkeypatch.setitem(names, "send_and_aggregate", blind(send_and_aggregate))
    outcomes = []
    for world in (1, 2):
        poison.clear()
        algorithm: Any = learner(envs.random, 120, privacy, name=name, replan_growth=growth, **PRACTICAL)
        algorithm._simulator = algorithm._simulator._replace(key=Streams(world, "world").key("env"))
        segments, states = [], []
        for _ in range(24):
            segments.append(algorithm.learn(5))
            states.append(algorithm._simulator.device.states.tolist())
        outcomes.append((algorithm.policy.tolist(), segments, states))
    assert outcomes[0][:2] == outcomes[1][:2]
    assert outcomes[0][2] != outcomes[1][2]


@EACH
def test_a_privatizer_for_another_problem_is_refused(name: str, learner: Learner, envs: Environments[Any]) -> None:
    for privatizer in (learner(envs.random, 50, name=name).privatizer, learner(envs.small, 20, name=name).privatizer):
        with pytest.raises(ValueError, match=r"must be built for (this environment|49 users), got"):
            ALGORITHMS[name]().build(envs.small, privatizer, 50, Streams(0, "x"))


@pytest.mark.parametrize("name", ["bernstein_vi", "random_vi", "offline_vi", "logged_vi"])
def test_ours_default_to_tuned_scales_and_printed_ones_to_the_papers(name: str) -> None:
    made: Any = ALGORITHMS[name]
    config, proved = made(), made(preset="proved")
    assert (config.bonus_scale, config.precision_scale) == config.tuned != (1.0, 1.0)
    assert (proved.bonus_scale, proved.precision_scale) == (1.0, 1.0)
    assert dataclasses.replace(config) == config
    assert dataclasses.replace(config, bonus_scale=0.5).precision_scale == config.precision_scale
    assert DPNashVIConfig().bonus_scale == 1.0


@EACH
@pytest.mark.parametrize(("value", "rule"), [(0.0, "at least 1e-20"), (1e-45, "at least 1e-20"), (1.0, "below 1, got")])
def test_beta_is_a_probability(name: str, value: float, rule: str) -> None:
    config: Any = ALGORITHMS[name]
    with pytest.raises(ValueError, match=rule):
        config(beta=value)


def test_same_bits_without_the_compiler() -> None:
    printed_both_ways("from tests.algorithms.test_contract import fingerprints; print(*fingerprints(), sep='\\n')")


def fingerprints() -> list[str]:
    """Metrics, released counts and sums of the tables after a short run of every algorithm, as exact text."""
    game = RandomGame(n_states=2, n_max_actions=2, n_min_actions=2, horizon=3, seed=5).build()
    envs: dict[type[Env], Env] = {FiniteMDP: RiverSwim(n_states=3, horizon=4).build(), MarkovGame: game}
    found = []
    for name in TABULAR:
        for privacy in PRIVACY:
            settings: Any = ALGORITHMS[name]
            config, streams = settings(**PRACTICAL), Streams(0, "test")
            env = envs[config.plays]
            privatizer = config.privatizer(env, privacy, 40, streams)
            algorithm: Any = config.build(env, privatizer, 40, streams)
            segment = algorithm.learn(40)
            sums = [array.sum() for array in (privatizer.release().values, *algorithm._tables)]
            numbers = [float(number).hex() for number in (*segment.values(), *sums)]
            found.append(" ".join((name, privacy.model, *numbers)))
    return found


@EACH
def test_what_is_measured_is_of_no_user(
    name: str, learner: Learner, envs: Environments[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a plugin's hook could copy a user's episode into the records."""
    algorithm: Any = learner(envs.tiny, 50, CountPrivacy("jdp", 20.0), name=name, simulation="users")
    seen: list[Any] = []

    def measure(config: object, simulator: Any, tables: object) -> dict[str, float]:
        seen.append(simulator.device)
        return {}

    monkeypatch.setattr(type(algorithm.config), "measure", measure)
    algorithm.learn(20)
    (device,) = seen
    assert not any(array.any() for array in device)
    used = algorithm._simulator.device
    assert any(array.any() for array in used)
    assert [array.shape for array in device] == [array.shape for array in used]
