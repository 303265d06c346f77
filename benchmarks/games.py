"""DP-Nash-VI and its two linear programmes: ours against linprog, as ratios within one run.

Run from the repository's root: python -m benchmarks.games [--quick] [--json PATH]
"""

from __future__ import annotations

import argparse
import sys
from itertools import product
from typing import Literal, NamedTuple

import numpy as np
from rich.console import Console

from benchmarks.harness import (
    TRUST_MODELS,
    Blocks,
    Row,
    Run,
    command_line,
    judged,
    race,
    repeated,
    show,
    verdict,
)
from benchmarks.naive_dp_nash_vi import (
    ClosedFormNashVI,
    NaiveNashVI,
    PureFirstNashVI,
    Settings,
    equilibrium_by_linprog,
    nearest_by_linprog,
    pure_equilibrium,
)
from benchmarks.subjects import PLANNED_EPISODES, Model, built, trust
from dprl.algorithms import DPNashVIConfig, TabularLearner
from dprl.algorithms.dp_nash_vi.postprocessing import Postprocessed, postprocess
from dprl.envs.games import RandomGame
from dprl.envs.games.equilibria import EquilibriumScratch, coarse_correlated_equilibrium, equilibrium_scratch
from dprl.privacy import kernel
from dprl.privacy.base import Float64Array

Kind = Literal["any", "no pure"]
Visits = Literal["few", "many"]
MODELS: tuple[Model, ...] = ("jdp", "ldp")
EPSILON = 100.0
# With the paper's bonus all bounds stay clipped at these K and every equilibrium is pure, which is the cheap case. With
# a small bonus most equilibria are mixed.
BONUSES = {"paper's": DPNashVIConfig(), "small": DPNashVIConfig(bonus_scale=0.0001, precision_scale=0.01)}
START = 100_000

KINDS: tuple[Kind, ...] = ("any", "no pure")
VISITS: tuple[Visits, ...] = ("few", "many")
EQUILIBRIUM_SIZES = (2, 3, 4, 6)
LEAST_OVER_LINPROG_A_ROW = 50_000.0
_GAMES, _TABLES = 300, 16
_NOISE = 10.0


class Case(NamedTuple):
    """One random game, lengths of runs on it, and goals: ratios of others to ours."""

    label: str
    spec: RandomGame
    ours: Blocks
    linprog: Blocks
    closed_form: Blocks
    least_over_linprog: float
    least_over_closed: float


def _game(n_states: int, n_actions: int) -> RandomGame:
    return RandomGame(n_states, n_actions, n_actions, horizon=n_states, concentration=0.3)


CASES = (
    Case("S=5 A=B=3 H=5", _game(5, 3), Blocks(5_000), Blocks(2, 3), Blocks(10, 3), 10_000.0, 1_000.0),
    Case("S=10 A=B=4 H=10", _game(10, 4), Blocks(700), Blocks(1, 2), Blocks(4, 3), 10_000.0, 600.0),
)


class _Programmes(NamedTuple):
    """Tables of released counts of one step [tables, S'+1, X], the slack E/4, and scratch of post-processing."""

    tables: Float64Array
    slack: float
    found: Postprocessed


@kernel
def solve_often(
    n: int, upper: Float64Array, lower: Float64Array, scratch: EquilibriumScratch, policy: Float64Array
) -> None:
    """Solve all games n times: upper, lower [games, A, B]."""
    for _ in range(n):
        for i in range(upper.shape[0]):
            coarse_correlated_equilibrium(upper[i], lower[i], scratch, policy)


@kernel
def postprocess_often(n: int, tables: Float64Array, slack: float, found: Postprocessed) -> None:
    """Post-process all tables n times."""
    for _ in range(n):
        for i in range(tables.shape[0]):
            postprocess(tables[i], slack, found)


def mixed_share(policy: Float64Array) -> float:
    """The share of steps and states where a policy [H,S,A,B] is not pure."""
    return float((policy.max(axis=(2, 3)) < 1.0).mean())


def against_linprog(case: Case, bonus: str, model: Model, start: int) -> Row:
    """Time ours and the three programs, from episode `start` on."""
    game, chosen = case.spec.build(), BONUSES[bonus]
    learner: TabularLearner = built(chosen, game, trust(model, EPSILON), PLANNED_EPISODES)
    settings = Settings.of(learner.privatizer, chosen)
    learner.learn(start)

    def program(of: type[NaiveNashVI]) -> NaiveNashVI:
        theirs = of(game, PLANNED_EPISODES, settings, np.random.default_rng(0))
        theirs.jump_to(start)
        return theirs

    pure = program(PureFirstNashVI)
    others = {
        "linprog": (repeated(program(NaiveNashVI).episode), case.linprog),
        "closed_form": (repeated(program(ClosedFormNashVI).episode), case.closed_form),
        "pure_first": (repeated(pure.episode), case.closed_form),
    }
    row = {"case": case.label, "bonus": bonus, "model": model, "privacy": TRUST_MODELS[model]}
    times = race(learner.learn, case.ours, others)
    mixed = mixed_share(np.asarray(learner.policy, dtype=np.float64))
    return with_goals(case, {**row, **times, "mixed": mixed, "mixed_naive": mixed_share(pure.policy)})


def with_goals(case: Case, row: Row) -> Row:
    """Return a row of times on a case with ratios and goals."""
    return judged(row, linprog=case.least_over_linprog, closed_form=case.least_over_closed, pure_first=None)


def matrix_games(size: int, games: Kind) -> tuple[Float64Array, Float64Array]:
    """Return bounds [games, A, B] in [0, 10] above and below random matrices, as in later plans of a run."""
    rng = np.random.default_rng(size)
    found: list[tuple[Float64Array, Float64Array]] = []
    while len(found) < _GAMES:
        middle, radius = 10.0 * rng.random((size, size)), 0.3 * rng.random((size, size))
        upper, lower = np.minimum(middle + radius, 10.0), np.maximum(middle - radius, 0.0)
        if games == "any" or pure_equilibrium(upper, lower) is None:
            found.append((upper, lower))
    return np.array([upper for upper, _ in found]), np.array([lower for _, lower in found])


def _beside_linprog(often: Run, number: int, effort: int, linprog: tuple[Run, Blocks]) -> Row:
    """Return microseconds per problem of `number` problems, solved `effort` times by our kernel, and by linprog."""
    often(1)
    linprog[0](2)
    times = race(often, Blocks(effort), {"linprog": linprog})
    ours = times["ours"] / number
    return {"ours": ours, "linprog": times["linprog"], "ratio": times["linprog"] / ours}


def measure_equilibria(size: int, games: Kind, effort: int) -> Row:
    """CPU microseconds per equilibrium of games of size x size actions, all drawn or those without a pure one."""
    upper, lower = matrix_games(size, games)
    scratch, policy = equilibrium_scratch(size, size), np.zeros((size, size))

    def solve(n: int) -> None:
        for i in range(n):
            equilibrium_by_linprog(upper[i], lower[i])

    linprog = solve, Blocks(40, repeats=3)
    row = _beside_linprog(lambda n: solve_often(n, upper, lower, scratch, policy), len(upper), effort, linprog)
    return {"size": size, "games": games, **row}


def programmes(n_states: int, cells: int, visits: Visits) -> _Programmes:
    """Noisy counts: on average 0.3 or 200 transitions to every next state, and Laplace noise of scale 10."""
    rng = np.random.default_rng(n_states)
    transitions = rng.poisson(0.3 if visits == "few" else 200.0, (_TABLES, n_states, cells)).astype(np.float64)
    tables = np.concatenate([transitions, transitions.sum(axis=1, keepdims=True)], axis=1)
    tables += rng.laplace(0.0, _NOISE, tables.shape)
    return _Programmes(tables, 4.0 * _NOISE, Postprocessed.zeros(n_states, cells))


def measure_postprocessing(n_states: int, cells: int, visits: Visits, effort: int) -> Row:
    """Return CPU nanoseconds per row of eq. (8), with few or many visits; linprog solves rows of one table."""
    given = programmes(n_states, cells, visits)

    def solve(n: int) -> None:
        for row in given.tables[0].T[:n]:
            nearest_by_linprog(row[:-1], row[-1], given.slack)

    linprog = solve, Blocks(min(40, cells), repeats=3)
    found = _beside_linprog(lambda n: postprocess_often(n, *given), len(given.tables) * cells, effort, linprog)
    found |= {"ours": 1000.0 * found["ours"], "linprog": 1000.0 * found["linprog"]}
    goal = verdict(found["ratio"], LEAST_OVER_LINPROG_A_ROW)
    return {"n_states": n_states, "cells": cells, "visits": visits, **found, "least": goal}


def run(console: Console, options: argparse.Namespace) -> Row:
    effort, start = (20, 1_000) if options.quick else (200, START)
    equilibria = [measure_equilibria(n, kind, max(1, effort // n**2)) for n, kind in product(EQUILIBRIUM_SIZES, KINDS)]
    show(
        console,
        "Coarse correlated equilibria: CPU microseconds each",
        equilibria,
        "actions {size}x{size} | games {games} | ours {ours:.3f} | linprog {linprog:.0f} | ratio {ratio:.0f}",
    )
    sizes = [(case.spec.n_states, case.spec.n_states * case.spec.n_max_actions**2) for case in CASES]
    postprocessing = [measure_postprocessing(*size, visits, effort) for size, visits in product(sizes, VISITS)]
    show(
        console,
        "Post-processing, eq. (8): CPU nanoseconds a row",
        postprocessing,
        "S {n_states} | rows at once {cells} | visits {visits} | ours {ours:.1f} | linprog {linprog:.0f} "
        "| ratio {ratio:.0f} | goal {least}",
    )
    learners = [against_linprog(*cell, start) for cell in product(CASES, BONUSES, MODELS)]
    report(console, learners)
    return {"learners": learners, "equilibria": equilibria, "postprocessing": postprocessing}


def report(console: Console, rows: list[Row]) -> None:
    """Ours against the three programs; goals are for the two that leave every equilibrium to linprog."""
    show(
        console,
        "dp_nash_vi: CPU microseconds per episode, and ratios to ours",
        rows,
        "game {case} | bonus {bonus} | privacy {privacy} | ours {ours:.1f} | linprog {linprog:.0f} "
        "| ratio {over_linprog:.0f} | goal {least_linprog} | closed form {closed_form:.0f} "
        "| ratio {over_closed_form:.0f} | goal {least_closed_form} | pure first {pure_first:.0f} "
        "| ratio {over_pure_first:.0f} | mixed {mixed:.0%}, theirs {mixed_naive:.0%}",
    )


if __name__ == "__main__":
    sys.exit(command_line(run, __doc__))
