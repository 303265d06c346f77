"""The naive program for games: both linear programs, the box, best responses, and properties of a run."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.naive_dp_nash_vi import (
    ClosedFormNashVI,
    NaiveNashVI,
    Plan,
    PureFirstNashVI,
    Settings,
    equilibrium_by_linprog,
    exploitability,
    marginals,
    nearest_by_linprog,
    nearest_closed_form,
    pure_equilibrium,
)
from benchmarks.naive_ucb_vi import Counts, Floats
from dprl.envs.games import MarkovGame
from dprl.envs.games.equilibria import coarse_correlated_equilibrium, equilibrium_scratch
from dprl.privacy.base import TrustModel
from tests.algorithms.dp_nash_vi.oracle import CheckedNashVI, nearest_by_bisection

H, S, A, B, K = 3, 2, 3, 2, 1000
PRIVATE = Settings("jdp", noise_scale=5.0, error=20.0, bonus_scale=0.002)
PROGRAMS = (NaiveNashVI, ClosedFormNashVI, PureFirstNashVI, CheckedNashVI)
PENNIES = np.array([[1.0, 0.0], [0.0, 1.0]])
UNEVEN = np.array([[1.0, 0.0], [0.0, 0.5]])  # value 1/3, both players mix (1/3, 2/3)


def random_game(n_min: int = B) -> MarkovGame:
    rng = np.random.default_rng(0)
    shape = (H, S, A, n_min)
    return MarkovGame("game", rng.dirichlet(np.ones(S), size=shape), rng.random(shape), rng.dirichlet(np.ones(S)))


def repeated(payoff: Floats, horizon: int) -> MarkovGame:
    """The same matrix game at every step, in one state."""
    rewards = np.broadcast_to(payoff, (horizon, 1, *payoff.shape)).copy()
    return MarkovGame("game", np.ones((*rewards.shape, 1)), rewards, np.ones(1))


def noisy_counts(game: MarkovGame, seed: int, scale: float = 20.0) -> Counts:
    rng = np.random.default_rng(seed)
    transitions = rng.poisson(30.0, game.transitions.shape).astype(float)
    visits = transitions.sum(axis=-1) + rng.laplace(0.0, scale, game.rewards.shape)
    return Counts(visits, transitions + rng.laplace(0.0, scale, transitions.shape), np.zeros(0))


def largest_gain(policy: Floats, upper: Floats, lower: Floats) -> float:
    """What a player wins at most by a fixed action in place of the advised one, term by term."""
    pairs = list(itertools.product(range(policy.shape[0]), range(policy.shape[1])))
    gains = [sum(policy[a, b] * (upper[i, b] - upper[a, b]) for a, b in pairs) for i in range(policy.shape[0])]
    gains += [sum(policy[a, b] * (lower[a, b] - lower[a, i]) for a, b in pairs) for i in range(policy.shape[1])]
    return float(max(gains))


def q_by_the_book(game: MarkovGame, private: Counts, settings: Settings, plan: Plan) -> tuple[Floats, Floats]:
    """Both Q of the box from the values of a plan, cell by cell."""
    upper, lower = np.zeros(game.rewards.shape), np.zeros(game.rewards.shape)
    iota = math.log(30 * H * S * A * B * K / settings.beta)
    for h, s, a, b in np.ndindex(game.rewards.shape):
        x = nearest_by_bisection(private.transitions[h, s, a, b], float(private.visits[h, s, a, b]), settings.error / 4)
        counts = [value + settings.error / (2 * S) for value in x]
        n = sum(counts)
        after = [(counts[t] / n, plan.upper[h + 1, t], plan.lower[h + 1, t]) for t in range(S)]
        mean = sum(p * (u + v) / 2 for p, u, v in after)
        variance = sum(p * ((u + v) / 2 - mean) ** 2 for p, u, v in after)
        bonus = settings.c1 / H * sum(p * (u - v) for p, u, v in after)
        bonus += settings.c2 * math.sqrt(variance * iota / n)
        bonus += settings.c2 * H * S * settings.error * iota / n + settings.c2 * H**2 * S * iota / n
        bonus *= settings.bonus_scale
        r = game.rewards[h, s, a, b]
        upper[h, s, a, b] = min(r + sum(p * u for p, u, _ in after) + bonus, H - h)
        lower[h, s, a, b] = max(r + sum(p * v for p, _, v in after) - bonus, 0)
    return upper, lower


@pytest.mark.parametrize(
    ("noisy", "total", "slack", "least", "nearest"),
    [
        ([3.0, -1.0], 2.0, 0.5, 1.0, [2.5, 0.0]),  # the negative count goes to 0, the rest into the band
        ([3.0, 1.0], 4.0, 0.5, 0.0, [3.0, 1.0]),  # feasible already
        ([3.0, 1.0], 8.0, 1.0, 1.5, [4.5, 2.5]),  # too few: all are raised alike
        ([5.0, 3.0, 0.0], 3.0, 1.0, 2.0, [3.0, 1.0, 0.0]),  # too many: lowered alike, one stays at 0
        ([2.0, -3.0], -1.0, 1.0, 3.0, [0.0, 0.0]),  # only zero is feasible
        ([2.0, -3.0], -5.0, 1.0, math.inf, [0.0, 0.0]),  # nothing is
    ],
)
def test_eq_8_by_hand(noisy: list[float], total: float, slack: float, least: float, nearest: list[float]) -> None:
    row = np.array(noisy)
    solved, maximum = nearest_by_linprog(row, total, slack)
    assert maximum == pytest.approx(least, abs=1e-9)
    if math.isfinite(least):
        assert np.abs(solved - row).max() == pytest.approx(least, abs=1e-7)
        assert abs(solved.sum() - total) <= slack + 1e-7
    else:
        assert not solved.any()
    assert nearest_by_bisection(row, total, slack) == pytest.approx(nearest, abs=1e-9)
    assert nearest_closed_form(row, np.array(total), slack) == pytest.approx(nearest, abs=1e-9)


def test_closed_form_bisection_and_linprog_agree() -> None:
    """Whole numbers, so ties and counts of zero are common; some totals leave nothing feasible."""
    rng = np.random.default_rng(1)
    rows = rng.integers(-4, 6, (100, 4)).astype(float)
    rows[::2] += rng.normal(0.0, 3.0, rows[::2].shape)
    totals, slack = rng.integers(-4, 16, 100).astype(float), 2.0
    projected = nearest_closed_form(rows, totals, slack)
    infeasible = 0
    for row, total, ours in zip(rows, totals, projected, strict=True):
        np.testing.assert_allclose(nearest_by_bisection(row, total, slack), ours, atol=1e-9)
        _, least = nearest_by_linprog(row, total, slack)
        infeasible += math.isinf(least)
        if math.isfinite(least):
            assert np.abs(ours - row).max() == pytest.approx(least, abs=1e-7)
            assert abs(ours.sum() - total) <= slack + 1e-9
    assert 0 < infeasible < 50


def test_equilibria_of_zero_sum_games() -> None:
    """With Qup = Qlo the marginals of a coarse correlated equilibrium are a Nash equilibrium."""
    for payoff, value, mixed in ((PENNIES, 0.5, [0.5, 0.5]), (UNEVEN, 1 / 3, [1 / 3, 2 / 3])):
        policy = equilibrium_by_linprog(payoff, payoff)
        assert (policy * payoff).sum() == pytest.approx(value)
        assert policy.sum(axis=1) == pytest.approx(mixed)
        assert policy.sum(axis=0) == pytest.approx(mixed)


@pytest.mark.parametrize("shape", [(2, 2), (3, 2), (4, 4), (1, 3)])
def test_linprogs_choice_is_an_equilibrium_with_the_least_gap(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(2)
    for _ in range(10):
        lower = rng.random(shape)
        upper = lower + 0.3 * rng.random(shape)
        policy = equilibrium_by_linprog(upper, lower)
        assert policy.min() >= 0.0
        assert policy.sum() == pytest.approx(1.0, abs=1e-12)
        assert largest_gain(policy, upper, lower) <= 1e-9
        pure = pure_equilibrium(upper, lower)
        if pure is not None:
            assert largest_gain(pure, upper, lower) <= 0.0
            assert (policy * (upper - lower)).sum() <= (pure * (upper - lower)).sum() + 1e-9


def test_ties_are_broken_by_their_weights() -> None:
    """Everything clipped: every joint action is an equilibrium with the same gap."""
    ties = np.array([[2.0, 1.0], [3.0, 4.0]]) * 1e-7
    policy = equilibrium_by_linprog(np.full((2, 2), 3.0), np.zeros((2, 2)), ties)
    assert policy.tolist() == [[0.0, 1.0], [0.0, 0.0]]


@pytest.mark.parametrize("shape", [(2, 2), (3, 3), (2, 5), (4, 4)])
def test_our_kernel_and_linprog_choose_the_same(shape: tuple[int, int]) -> None:
    """Clipped bounds, so ties are common."""
    rng, game = np.random.default_rng(3), repeated(np.zeros(shape), horizon=1)
    chooser, scratch, policy = PureFirstNashVI(game, K, Settings(), rng), equilibrium_scratch(*shape), np.zeros(shape)
    mixed = 0
    for _ in range(40):
        middle, radius = rng.random(shape), 0.4 * rng.random(shape)
        upper, lower = np.minimum(middle + radius, 1.0), np.maximum(middle - radius, 0.0)
        coarse_correlated_equilibrium(upper, lower, scratch, policy)
        np.testing.assert_allclose(chooser.equilibrium(upper, lower), policy, atol=1e-9)
        mixed += policy.max() < 1.0
    assert mixed > 4


def test_pure_equilibria_by_hand() -> None:
    assert pure_equilibrium(PENNIES, PENNIES) is None
    saddle = np.array([[3.0, 2.0], [4.0, 1.0]])  # 2 is the least of its row and the most of its column
    found = pure_equilibrium(saddle, saddle)
    assert found is not None
    assert found.tolist() == [[0.0, 1.0], [0.0, 0.0]]
    flat = pure_equilibrium(np.ones((2, 3)), np.zeros((2, 3)))
    assert flat is not None
    assert flat[0, 0] == 1.0
    upper, lower = np.ones((2, 2)), np.array([[0.0, 0.0], [0.5, 0.5]])
    closest = pure_equilibrium(upper, lower)
    assert closest is not None
    assert closest.tolist() == [[0.0, 0.0], [1.0, 0.0]]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_plan_is_the_papers(program: type[NaiveNashVI]) -> None:
    """linprog's own minimiser of eq. (8) need not be the book's, so that program is held to invariants only."""
    game, mixed = random_game(), 0
    for seed in range(4):
        private = noisy_counts(game, seed)
        plan = program(game, K, PRIVATE, np.random.default_rng(0)).plan(private)
        assert plan.policy.min() >= 0.0
        assert plan.policy.sum(axis=(2, 3)) == pytest.approx(1.0, abs=1e-12)
        assert (plan.upper >= plan.lower).all()
        assert (plan.upper_q <= np.arange(H, 0, -1)[:, None, None, None]).all()
        assert plan.lower_q.min() >= 0.0
        for h, s in itertools.product(range(H), range(S)):
            assert largest_gain(plan.policy[h, s], plan.upper_q[h, s], plan.lower_q[h, s]) <= 1e-9
            assert (plan.policy[h, s] * plan.upper_q[h, s]).sum() == pytest.approx(plan.upper[h, s])
            assert (plan.policy[h, s] * plan.lower_q[h, s]).sum() == pytest.approx(plan.lower[h, s])
        if program is not NaiveNashVI:
            upper_q, lower_q = q_by_the_book(game, private, PRIVATE, plan)
            assert plan.upper_q == pytest.approx(upper_q, abs=1e-9)
            assert plan.lower_q == pytest.approx(lower_q, abs=1e-9)
        mixed += int((plan.policy.max(axis=(2, 3)) < 1.0).sum())
    assert mixed > 0


def test_linprog_with_ours_choices_plans_as_the_closed_form_does() -> None:
    game, policies = random_game(), set()
    for seed in range(4):
        private = noisy_counts(game, seed)
        oracle = CheckedNashVI(game, K, PRIVATE, np.random.default_rng(0)).plan(private)
        closed = PureFirstNashVI(game, K, PRIVATE, np.random.default_rng(0)).plan(private)
        for theirs, ours in zip(oracle, closed, strict=True):
            np.testing.assert_allclose(theirs, ours, atol=1e-9)
        policies.add(closed.policy.tobytes())
    assert len(policies) == 4


def test_with_exact_counts_the_bounds_enclose_the_value() -> None:
    """Two rounds of the uneven game are worth 2/3; with bonus the bounds are on either side, without they meet."""
    game = repeated(UNEVEN, horizon=2)
    counts = Counts(np.full(game.rewards.shape, 1e7), 1e7 * game.transitions, np.zeros(0))
    around = ClosedFormNashVI(game, K, Settings(), np.random.default_rng(0)).plan(counts)
    assert 2 / 3 - 1e-2 < around.lower[0, 0] < 2 / 3 < around.upper[0, 0] < 2 / 3 + 1e-2
    exact = ClosedFormNashVI(game, K, Settings(bonus_scale=0.0), np.random.default_rng(0)).plan(counts)
    assert exact.lower[0, 0] == pytest.approx(2 / 3)
    assert exact.upper[0, 0] == pytest.approx(2 / 3)
    max_player, min_player = marginals(exact.policy)
    assert max_player == pytest.approx(np.broadcast_to([1 / 3, 2 / 3], (2, 1, 2)))
    assert exploitability(game, max_player, min_player) == pytest.approx(0.0, abs=1e-9)


def test_unvisited_cells_may_be_worth_everything_or_nothing() -> None:
    game = random_game()
    learner = ClosedFormNashVI(game, K, Settings(bonus_scale=0.0), np.random.default_rng(0))
    learner.counts.visits[0, 0, 0, 0], learner.counts.transitions[0, 0, 0, 0, 1] = 2.0, 2.0
    plan = learner.plan(learner.private_counts())
    assert plan.upper_q[0, 0, 0, 0] == pytest.approx(game.rewards[0, 0, 0, 0] + H - 1)
    assert plan.lower_q[0, 0, 0, 0] == pytest.approx(game.rewards[0, 0, 0, 0])
    unvisited = learner.counts.visits == 0.0
    assert (plan.upper_q == np.arange(H, 0, -1)[:, None, None, None])[unvisited].all()
    assert (plan.lower_q[unvisited] == 0.0).all()


def test_exploitability_by_hand() -> None:
    game = repeated(PENNIES, horizon=2)
    half, first = np.full((2, 1, 2), 0.5), np.broadcast_to([1.0, 0.0], (2, 1, 2))
    assert exploitability(game, half, half) == pytest.approx(0.0)
    assert exploitability(game, first, first) == pytest.approx(2.0)
    assert exploitability(game, half, first) == pytest.approx(1.0)


@pytest.mark.parametrize("program", [ClosedFormNashVI, PureFirstNashVI])
def test_without_an_opponent_the_policy_is_greedy(program: type[NaiveNashVI]) -> None:
    game = random_game(n_min=1)
    for seed in range(3):
        plan = program(game, K, PRIVATE, np.random.default_rng(0)).plan(noisy_counts(game, seed))
        assert plan.upper[:-1] == pytest.approx(plan.upper_q.max(axis=(2, 3)), abs=1e-9)
        assert (plan.policy[..., 0].argmax(axis=2) == plan.upper_q[..., 0].argmax(axis=2)).all()


def test_the_output_is_the_policy_with_the_smallest_gap() -> None:
    learner = NaiveNashVI(random_game(), K, Settings(), np.random.default_rng(0))
    uniform, shape = learner.output, learner.policy.shape

    def plan(gap: float) -> Plan:
        values = np.zeros((H + 1, S))
        return Plan(np.full(shape, gap), values, values, values + gap, values)

    for gap, smallest in ((float(H), float(H)), (2.0, 2.0), (2.5, 2.0), (2.0, 2.0), (1.0, 1.0)):
        learner.deploy(plan(gap))
        assert learner.policy[0, 0, 0, 0] == gap
        assert learner.smallest_gap == smallest
        assert (learner.output is uniform) if smallest == H else learner.output[0, 0, 0, 0] == smallest


@pytest.mark.parametrize("given", [False, True], ids=["choice", "uniforms"])
def test_roll_out_and_counts(given: bool) -> None:
    """Frequencies of actions and states within 5 standard deviations: false alarm below 1e-4."""
    game, rng = random_game(), np.random.default_rng(6)
    learner = NaiveNashVI(game, K, Settings(), rng)
    learner.policy = rng.dirichlet(np.ones(A * B), size=(H, S)).reshape(H, S, A, B)
    for _ in range(2000):
        learner.absorb(*learner.roll_out(rng.random(2 * H + 1) if given else None))
    visits, transitions = learner.counts.visits, learner.counts.transitions
    assert (visits.sum(axis=(1, 2, 3)) == 2000).all()
    assert (transitions.sum(axis=4) == visits).all()
    of_states = visits.sum(axis=(2, 3))[..., None, None]
    pairs = [(visits, of_states, learner.policy), (transitions, visits[..., None], game.transitions)]
    for counts, trials, probabilities in pairs:
        deviation = np.sqrt(trials * probabilities * (1 - probabilities))
        assert (np.abs(counts - trials * probabilities) <= 5 * deviation + 1e-9).all()


def test_given_uniforms_pick_start_actions_and_states() -> None:
    game = replace(random_game(), start=np.array([0.25, 0.75]))
    learner = NaiveNashVI(game, K, Settings(), np.random.default_rng(0))
    stay = game.transitions[0, 1, 2, 0, 0]
    uniforms = np.array([0.25, 4.5 / 6, stay - 1e-9, 0.0, 0.0, 0.999, 0.999])
    states, actions = learner.roll_out(uniforms)
    assert states.tolist() == [1, 0, 0, 1]
    assert actions.tolist() == [2 * B, 0, A * B - 1]


@pytest.mark.parametrize(("model", "nodes"), [("jdp", 5), ("ldp", 59)])
def test_the_noise_is_that_of_the_trust_model(model: TrustModel, nodes: int) -> None:
    """After 59 users, 5 binary digits; 5 standard errors of a variance (kurtosis at most 6): false alarm below 1e-5."""
    game, noise = random_game(), []
    for seed in range(20):
        settings = replace(PRIVATE, trust_model=model, noise_scale=3.0)
        learner = NaiveNashVI(game, K, settings, np.random.default_rng(seed))
        assert not learner.private_counts().transitions.any()
        for _ in range(59):
            learner.absorb(*learner.roll_out())
        released = learner.private_counts()
        noise += [released.visits - learner.counts.visits, released.transitions - learner.counts.transitions]
    drawn = np.concatenate([part.ravel() for part in noise])
    assert abs(drawn.var() / (nodes * 2 * 3.0**2) - 1.0) < 5 * math.sqrt(5.0 / drawn.size)


@pytest.mark.parametrize("model", ["jdp", "ldp"])
def test_a_jump_leaves_what_uniform_play_would(model: TrustModel) -> None:
    """The variance of 1,440 draws within 5 standard errors (kurtosis at most 6): false alarm below 1e-5."""
    game, noise = random_game(), []
    for seed in range(20):
        settings = replace(PRIVATE, trust_model=model)
        learner = ClosedFormNashVI(game, K, settings, np.random.default_rng(seed))
        learner.jump_to(300)
        noise.append(learner.private_counts().transitions - learner.counts.transitions)
    nodes = 4 if model == "jdp" else 300  # 300 = 256 + 32 + 8 + 4
    drawn = np.concatenate([part.ravel() for part in noise])
    assert abs(drawn.var() / (nodes * 2 * PRIVATE.noise_scale**2) - 1.0) < 5 * math.sqrt(5.0 / drawn.size)
    visits = learner.counts.visits
    assert visits.sum(axis=(1, 2, 3)) == pytest.approx(300.0)
    assert visits[0] == pytest.approx(np.broadcast_to(300.0 / (A * B) * game.start[:, None, None], (S, A, B)))
    assert learner.counts.transitions.sum(axis=4) == pytest.approx(visits)
    assert learner.counts.transitions[0].sum(axis=(0, 1, 2)) == pytest.approx(visits[1].sum(axis=(1, 2)))
    learner.episode()
    assert learner.episodes_done == 301


def test_it_learns() -> None:
    longer = random_game()
    game = MarkovGame("game", longer.transitions[:2], longer.rewards[:2], longer.start)
    learner = PureFirstNashVI(game, 600, Settings(bonus_scale=0.02), np.random.default_rng(8))
    regrets = [learner.episode() for _ in range(600)]
    assert min(regrets) >= -1e-9
    assert np.mean(regrets[-100:]) < 0.3 * np.mean(regrets[:20])
    assert exploitability(game, *marginals(learner.output)) < 0.1
    assert learner.smallest_gap < 2.0
