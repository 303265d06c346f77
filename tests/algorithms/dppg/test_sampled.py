"""dppg with sampled users and with correlated noise: rounds, charges, states and refusals."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from dprl.algorithms import DPPGConfig, PGCA3CConfig
from dprl.algorithms.dppg import algorithm
from dprl.envs import TASKS, Control, ControlTask
from dprl.privacy import GradientPrivacy, LedgerError, NoiseConfig, Streams
from dprl.privacy.queries.sampled_gradients import draw_users, release_round
from dprl.privacy.threat_models import SAMPLED_ADJACENCY
from tests.algorithms.cases import same_state

# dppg with users drawn from a population: interrupted and resumed runs have the same rounds, counts and refusals.

POPULATION, USERS, ROUNDS = 60, 6, 7
N = USERS * ROUNDS
PRIVACY = GradientPrivacy("jdp", 5.0, 1e-6, "clipped_gaussian", 2.0, sampling="poisson", population=POPULATION)


def learner(
    seed: int = 0,
    privacy: GradientPrivacy = PRIVACY,
    noise: NoiseConfig = NoiseConfig(),  # noqa: B008 - frozen
    n: int = N,
    horizon: int = 20,
    **settings: Any,
) -> Any:
    config = DPPGConfig(**{"users_per_update": USERS, "hidden": "4", **settings})
    env, streams = Control(horizon=horizon).build(), Streams(seed, "sampled", noise)
    return config.build(env, config.privatizer(env, privacy, n, streams), n, streams)


def with_counter(counter: str, epsilon: float = 5.0) -> GradientPrivacy:
    return GradientPrivacy("jdp", epsilon, 1e-6, "clipped_gaussian", 2.0, counter=counter)


def test_the_whole_population_is_charged_before_the_first_round() -> None:
    run = learner()
    assert run.privatizer.charged == 0
    found = run.learn(1)
    assert run.privatizer.charged == run.privatizer.ledger.users_charged == POPULATION
    assert all(np.isfinite(value) for value in found.values())
    run.learn(N - 1)
    assert run.privatizer.charged == POPULATION
    with pytest.raises(ValueError, match="n must"):
        run.learn(1)
    told = run.certificate().to_dict()
    assert (told["verdict"], told["users"], told["adjacency"]) == ("holds", POPULATION, SAMPLED_ADJACENCY)


def test_a_privatizer_that_has_charged_begins_no_second_run() -> None:
    run = learner()
    run.learn(N)
    again = run.config.build(Control(horizon=20).build(), run.privatizer, N, Streams(0, "sampled"))
    with pytest.raises(LedgerError, match="charged already"):
        again.learn(USERS)


def test_a_round_divides_by_the_expected_number() -> None:
    """The number of users who joined is secret, so the released sum is divided by the expected number."""
    run, twin = (learner(optimizer="sgd", learning_rate=1.0) for _ in range(2))  # divided by half the clip, 1
    before, released = run.policy, np.empty(run.policy.size)
    run.learn(USERS)
    twin.privatizer.charge(1, POPULATION)
    updates, played = twin._round(1)
    assert len(updates) == len(played) == len(draw_users(twin.privatizer.channel))
    release_round(twin.privatizer.channel, updates, released)
    assert run.policy == pytest.approx(before - released / USERS)


def test_every_round_plays_equally_many_episodes_and_more_only_if_it_must(monkeypatch: pytest.MonkeyPatch) -> None:
    played, play = list[int](), ControlTask.play

    def counted(task: Any, vector: Any, *arguments: Any, **options: Any) -> Any:
        played.append(vector.num_envs)
        return play(task, vector, *arguments, **options)

    monkeypatch.setattr(ControlTask, "play", counted)
    run = learner()
    run.learn(N)
    assert set(played) == {USERS + 10, 100}  # 6 + 4 sqrt(6), and the last evaluation


def test_draws_of_the_operating_system_do_not_come_again() -> None:
    one, other = (learner(noise=NoiseConfig(entropy="os")) for _ in range(2))
    one.learn(N)
    other.learn(N)
    assert not np.array_equal(one.policy, other.policy)
    with pytest.raises(LedgerError, match="secret"):
        one.state_dict()


def test_agents_who_take_part_in_turn_are_not_amplified() -> None:
    env = next(spec().build() for spec in TASKS.values())
    with pytest.raises(ValueError, match="sampling must be one_pass with this algorithm"):
        PGCA3CConfig().privatizer(env, PRIVACY, N, Streams(0, "sampled"))


def test_each_pass_of_a_round_has_draws_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """How far an episode's draws go depends on the user, so the next users' draws must not follow them."""
    monkeypatch.setattr(
        algorithm, "with_spare", lambda n: n - 4
    )  # places for fewer users than join, so there are several passes
    seen: list[list[float]] = []
    for used in (0, 7):
        run = learner()
        begun: list[float] = []
        report = run._rollout.report

        def counted(
            *arguments: Any, report: Any = report, begun: Any = begun, used: int = used
        ) -> tuple[np.ndarray, np.ndarray]:
            begun.append(copy.deepcopy(arguments[2]).random())
            arguments[2].random(used)
            found: tuple[np.ndarray, np.ndarray] = report(*arguments)
            return found

        monkeypatch.setattr(run._rollout, "report", counted)
        run.learn(1)
        seen.append(begun)
    assert len(seen[0]) > 1
    assert seen[0] == seen[1]
    assert len(set(seen[0])) == len(seen[0])


# dppg with correlated noise: it learns, and a run depends on its seed only, even if interrupted.


@pytest.mark.parametrize(
    ("privacy", "arithmetic", "users"),
    [
        (PRIVACY, "fast", POPULATION),
        (with_counter("buffered_toeplitz"), "fast", N),
        (with_counter("kary_tree"), "exact", N),
    ],
)
def test_a_run_is_its_seed_however_it_is_cut(privacy: GradientPrivacy, arithmetic: Any, users: int) -> None:
    whole, cut, resumed, other = (learner(seed, privacy, NoiseConfig(arithmetic)) for seed in (0, 0, 0, 1))
    whole.learn(N)
    other.learn(N)
    cut.learn(13)
    resumed.load_state_dict(cut.state_dict())
    for run in (cut, resumed):
        run.learn(20)
        run.learn(N - 33)
        assert same_state(whole.state_dict(), run.state_dict())
    assert not same_state(whole.state_dict(), other.state_dict())
    assert np.isfinite(whole.policy).all()
    told = whole.certificate().to_dict()
    assert (told["verdict"], told["users"]) == ("holds", users)


def test_policies_improve() -> None:
    """CartPole of 100 steps; a random policy lasts 22 steps. At epsilon 1 updates are nearly pure noise."""
    settings: dict[str, Any] = {"users_per_update": 100, "hidden": "linear", "optimizer": "sgd", "learning_rate": 1.0}
    privacy = with_counter("buffered_toeplitz", epsilon=10.0)
    run = learner(privacy=privacy, n=3000, horizon=100, halving=1000.0, **settings)
    found = run.learn(3000)
    assert found["evaluation"] > 80.0
    assert np.isfinite(run.derived["noise_norm"])


def test_the_step_does_not_depend_on_the_clip() -> None:
    """All updates here are longer than the clips."""
    found = []
    for clip in (1e-3, 1e-6):
        config, env = DPPGConfig(optimizer="sgd", users_per_update=USERS, hidden="4"), Control(horizon=100).build()
        streams = Streams(0, "clip", NoiseConfig())
        privacy = GradientPrivacy("none", clip=clip)
        made = config.build(env, config.privatizer(env, privacy, USERS, streams), USERS, streams)
        before = made.policy
        made.learn(USERS)
        found.append(made.policy - before)
    assert np.linalg.norm(found[0]) > 0.01
    assert found[0] == pytest.approx(found[1], rel=1e-6, abs=1e-9)
