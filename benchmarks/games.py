"""DP-Nash-VI and its two linear programmes: ours against linprog, in one run and as ratios.

Run from the repository's root: python -m benchmarks.games [--quick] [--json PATH]
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.naive_dp_nash_vi import (
    ClosedFormNashVI,
    Game,
    NaiveNashVI,
    PureFirstNashVI,
    Settings,
    equilibrium_by_linprog,
    nearest_by_linprog,
    pure_equilibrium,
)
from benchmarks.subjects import PLANNED_EPISODES
from benchmarks.tabular import verdict
from benchmarks.timing import Blocks, machine, microseconds_per_episode
from dprl.algorithms import DPNashVIConfig
from dprl.algorithms.dp_nash_vi.postprocessing import Postprocessed, postprocess
from dprl.envs.games import MarkovGame, RandomGame
from dprl.envs.games.equilibria import EquilibriumScratch, coarse_correlated_equilibrium, equilibrium_scratch
from dprl.privacy import CentralPrivacy, LocalPrivacy, Privatizer, Streams, kernel
from dprl.privacy.base import Float64Array

Model = Literal["jdp", "ldp"]
Kind = Literal["any", "no pure"]
Visits = Literal["few", "many"]
MODELS: dict[Model, str] = {"jdp": "central", "ldp": "local"}
EPSILON = 100.0
# With the paper's bonus all bounds stay clipped at these K and every equilibrium is pure: the cheap case. With a small
# one most equilibria are mixed.
BONUSES = {"paper's": DPNashVIConfig(), "small": DPNashVIConfig(bonus_scale=0.0001, precision_scale=0.01)}
START = 100_000

KINDS: tuple[Kind, ...] = ("any", "no pure")
VISITS: tuple[Visits, ...] = ("few", "many")
EQUILIBRIUM_SIZES = (2, 3, 4, 6)
MOST_AN_EQUILIBRIUM = {3: 1.0, 4: 2.0}
MOST_A_ROW, LEAST_OVER_LINPROG_A_ROW = 15.0, 50_000.0
_GAMES, _TABLES = 300, 16
_NOISE = 10.0


@dataclass(frozen=True)
class Case:
    """One random game, how long to run on it, and what we aim at on AVX-512.

    least_over_linprog, least_over_closed_form: how many times as long those programs take.
    """

    label: str
    spec: RandomGame
    ours: Blocks
    linprog: Blocks
    closed_form: Blocks
    most_microseconds: float
    least_over_linprog: float
    least_over_closed_form: float


CASES = (
    Case(
        "S=5 A=B=3 H=5",
        RandomGame(n_states=5, n_max_actions=3, n_min_actions=3, horizon=5, concentration=0.3),
        Blocks(5_000),
        Blocks(2, repeats=3),
        Blocks(10, repeats=3),
        most_microseconds=20.0,
        least_over_linprog=10_000.0,
        least_over_closed_form=1_000.0,
    ),
    Case(
        "S=10 A=B=4 H=10",
        RandomGame(n_states=10, n_max_actions=4, n_min_actions=4, horizon=10, concentration=0.3),
        Blocks(700),
        Blocks(1, repeats=2),
        Blocks(4, repeats=3),
        most_microseconds=150.0,
        least_over_linprog=10_000.0,
        least_over_closed_form=600.0,
    ),
)


@dataclass(frozen=True)
class Row:
    """CPU microseconds per episode on one game with one bonus under one trust model.

    mixed, mixed_naive: the share of steps and states where the policy deployed last, ours and theirs, is not pure.
    """

    case: str
    bonus: str
    model: Model
    ours: float
    linprog: float
    closed_form: float
    pure_first: float
    mixed: float
    mixed_naive: float


@dataclass(frozen=True)
class EquilibriumRow:
    """CPU microseconds per equilibrium of games of size x size actions, all drawn or those without a pure one."""

    size: int
    games: Kind
    ours: float
    linprog: float


@dataclass(frozen=True)
class PostprocessingRow:
    """CPU nanoseconds per row of eq. (8), few visits beside the noise or many."""

    n_states: int
    cells: int
    visits: Visits
    ours: float
    linprog: float


class Programmes(NamedTuple):
    """Tables of released counts of one step [tables, S'+1, X], the slack E/4, and what post-processing works on."""

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


def privatizer(chosen: DPNashVIConfig, game: MarkovGame, model: Model, episodes: int) -> Privatizer:
    """The certified privatizer of a run of `episodes` episodes."""
    trust = CentralPrivacy(EPSILON) if model == "jdp" else LocalPrivacy(EPSILON)
    return chosen.privatizer(game, trust, episodes, Streams(0, "benchmark"))


def settings_of(private: Privatizer, chosen: DPNashVIConfig) -> Settings:
    """The same noise scale, precision and bonus as ours has; no count is off by more than E/4."""
    report, counter, _ = private.noise
    noise = report or counter.node
    return Settings(
        trust_model=private.trust_model,
        noise_scale=0.0 if noise is None else noise.scale,
        error=4.0 * chosen.precision_scale * max(private.precision(chosen.beta / 3.0).bounds.values()),
        bonus_scale=chosen.bonus_scale,
        c1=chosen.c1,
        c2=chosen.c2,
        beta=chosen.beta,
    )


def arrays(game: MarkovGame) -> Game:
    """A game as the linprog programs take it."""
    return Game(game.transitions, game.rewards, game.start)


def mixed_share(policy: Float64Array) -> float:
    """The share of steps and states where a policy [H,S,A,B] is not pure."""
    return float((policy.max(axis=(2, 3)) < 1.0).mean())


def against_linprog(case: Case, bonus: str, model: Model, start: int) -> Row:
    """Time ours before and after the three programs, so that drift of the machine shows as a larger minimum."""
    game, chosen = case.spec.build(), BONUSES[bonus]
    private = privatizer(chosen, game, model, PLANNED_EPISODES)
    learner = chosen.build(game, private, PLANNED_EPISODES, Streams(0, "benchmark"))
    learner.learn(start)
    before = microseconds_per_episode(learner.learn, case.ours)
    linprog, closed, pure = (
        program(arrays(game), PLANNED_EPISODES, settings_of(private, chosen), np.random.default_rng(0))
        for program in (NaiveNashVI, ClosedFormNashVI, PureFirstNashVI)
    )
    solved = _time_naive(linprog, start, case.linprog)
    projected, pure_first = (_time_naive(theirs, start, case.closed_form) for theirs in (closed, pure))
    after = microseconds_per_episode(learner.learn, case.ours)
    mixed = mixed_share(np.asarray(learner.policy, dtype=np.float64))
    shares = mixed, mixed_share(pure.policy)
    return Row(case.label, bonus, model, min(before, after), solved, projected, pure_first, *shares)


def _time_naive(learner: NaiveNashVI, start: int, blocks: Blocks) -> float:
    learner.jump_to(start)

    def run(n: int) -> None:
        for _ in range(n):
            learner.episode()

    run(1)
    return microseconds_per_episode(run, blocks)


def matrix_games(size: int, games: Kind) -> tuple[Float64Array, Float64Array]:
    """Upper and lower bounds [games, A, B] in [0, 10] around random matrices, as planning sees them after a while."""
    rng = np.random.default_rng(size)
    found: list[tuple[Float64Array, Float64Array]] = []
    while len(found) < _GAMES:
        middle, radius = 10.0 * rng.random((size, size)), 0.3 * rng.random((size, size))
        upper, lower = np.minimum(middle + radius, 10.0), np.maximum(middle - radius, 0.0)
        if games == "any" or pure_equilibrium(upper, lower) is None:
            found.append((upper, lower))
    return np.array([upper for upper, _ in found]), np.array([lower for _, lower in found])


def measure_equilibria(size: int, games: Kind, effort: int) -> EquilibriumRow:
    """Time our kernel on all games, `effort` times over, before and after linprog on some of them."""
    upper, lower = matrix_games(size, games)
    scratch, policy = equilibrium_scratch(size, size), np.zeros((size, size))

    def timed() -> float:
        return microseconds_per_episode(lambda n: solve_often(n, upper, lower, scratch, policy), Blocks(effort))

    def solve(n: int) -> None:
        for i in range(n):
            equilibrium_by_linprog(upper[i], lower[i])

    solve_often(1, upper, lower, scratch, policy)
    solve(2)
    before = timed()
    linprog = microseconds_per_episode(solve, Blocks(40, repeats=3))
    return EquilibriumRow(size, games, min(before, timed()) / len(upper), linprog)


def programmes(n_states: int, cells: int, visits: Visits) -> Programmes:
    """Noisy counts: on average 0.3 or 200 transitions to every next state, and Laplace noise of scale 10."""
    rng = np.random.default_rng(n_states)
    transitions = rng.poisson(0.3 if visits == "few" else 200.0, (_TABLES, n_states, cells)).astype(np.float64)
    tables = np.concatenate([transitions, transitions.sum(axis=1, keepdims=True)], axis=1)
    tables += rng.laplace(0.0, _NOISE, tables.shape)
    return Programmes(tables, 4.0 * _NOISE, Postprocessed.zeros(n_states, cells))


def measure_postprocessing(n_states: int, cells: int, visits: Visits, effort: int) -> PostprocessingRow:
    """Time our kernel on all tables, `effort` times over, before and after linprog on the first one's rows."""
    given = programmes(n_states, cells, visits)
    rows = len(given.tables) * cells

    def timed() -> float:
        return microseconds_per_episode(lambda n: postprocess_often(n, *given), Blocks(effort)) / rows * 1000.0

    def solve(n: int) -> None:
        for row in given.tables[0].T[:n]:
            nearest_by_linprog(row[:-1], row[-1], given.slack)

    postprocess_often(1, *given)
    solve(2)
    before = timed()
    linprog = microseconds_per_episode(solve, Blocks(min(40, cells), repeats=3)) * 1000.0
    return PostprocessingRow(n_states, cells, visits, min(before, timed()), linprog)


def report_learners(console: Console, rows: list[Row]) -> None:
    """Ours against the three programs; goals are for the two that leave every equilibrium to linprog."""
    table = Table(title="dp_nash_vi: CPU microseconds per episode, and ratios to ours (goals: AVX-512)")
    left = {"game", "bonus", "privacy", "goal", "mixed"}
    headings = ("game", "bonus", "privacy", "ours", "goal", "linprog", "ratio", "goal", "closed form", "ratio", "goal")
    for heading in (*headings, "pure first", "ratio", "mixed"):
        table.add_column(heading, justify="left" if heading in left else "right")
    cases = {case.label: case for case in CASES}
    for row in rows:
        case = cases[row.case]
        table.add_row(
            row.case,
            row.bonus,
            MODELS[row.model],
            f"{row.ours:.1f}",
            verdict(row.ours, case.most_microseconds, at_most=True),
            f"{row.linprog:.0f}",
            f"{row.linprog / row.ours:.0f}",
            verdict(row.linprog / row.ours, case.least_over_linprog),
            f"{row.closed_form:.0f}",
            f"{row.closed_form / row.ours:.0f}",
            verdict(row.closed_form / row.ours, case.least_over_closed_form),
            f"{row.pure_first:.0f}",
            f"{row.pure_first / row.ours:.0f}",
            f"{row.mixed:.0%}, theirs {row.mixed_naive:.0%}",
        )
    console.print(table)


def report_equilibria(console: Console, rows: list[EquilibriumRow]) -> None:
    """One line for every size and kind of games."""
    table = Table(title="Coarse correlated equilibria: CPU microseconds each (goals: AVX-512)")
    for heading in ("actions", "games", "ours", "goal", "linprog", "ratio"):
        table.add_column(heading, justify="left" if heading in {"actions", "games", "goal"} else "right")
    for row in rows:
        most = MOST_AN_EQUILIBRIUM.get(row.size)
        table.add_row(
            f"{row.size}x{row.size}",
            row.games,
            f"{row.ours:.3f}",
            "" if most is None else verdict(row.ours, most, at_most=True),
            f"{row.linprog:.0f}",
            f"{row.linprog / row.ours:.0f}",
        )
    console.print(table)


def report_postprocessing(console: Console, rows: list[PostprocessingRow]) -> None:
    """One line for every size and kind of counts."""
    table = Table(title="Post-processing, eq. (8): CPU nanoseconds a row (goals: AVX-512)")
    for heading in ("S", "rows at once", "visits", "ours", "goal", "linprog", "ratio", "goal"):
        table.add_column(heading, justify="left" if heading in {"visits", "goal"} else "right")
    for row in rows:
        table.add_row(
            str(row.n_states),
            str(row.cells),
            row.visits,
            f"{row.ours:.1f}",
            verdict(row.ours, MOST_A_ROW, at_most=True),
            f"{row.linprog:.0f}",
            f"{row.linprog / row.ours:.0f}",
            verdict(row.linprog / row.ours, LEAST_OVER_LINPROG_A_ROW),
        )
    console.print(table)


def main() -> int:
    """Measure, print, and write JSON if asked to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.games", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write all figures here")
    parser.add_argument("--quick", action="store_true", help="shorter blocks, and episodes from 1000 on")
    arguments = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 180, highlight=False)
    here = machine()
    console.print(", ".join(f"{key} {value}" for key, value in here.items()))
    effort, start = (20, 1_000) if arguments.quick else (200, START)
    equilibria = [
        measure_equilibria(size, games, max(1, effort // size**2)) for size in EQUILIBRIUM_SIZES for games in KINDS
    ]
    report_equilibria(console, equilibria)
    postprocessing = [
        measure_postprocessing(spec.n_states, spec.n_states * spec.n_max_actions * spec.n_min_actions, visits, effort)
        for spec in (case.spec for case in CASES)
        for visits in VISITS
    ]
    report_postprocessing(console, postprocessing)
    learners = [against_linprog(case, bonus, model, start) for case in CASES for bonus in BONUSES for model in MODELS]
    report_learners(console, learners)
    if arguments.json:
        document = {
            "machine": here,
            "learners": [asdict(row) for row in learners],
            "equilibria": [asdict(row) for row in equilibria],
            "postprocessing": [asdict(row) for row in postprocessing],
        }
        arguments.json.write_text(json.dumps(document, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
