"""DP-Nash-VI: ours against programs with the paper's linear programmes, as ratios within one run.

Run from the repository's root: python -m benchmarks.games [--quick] [--json PATH]
"""

from __future__ import annotations

import argparse
import sys
from itertools import product
from typing import NamedTuple

import numpy as np
from rich.console import Console

from benchmarks.harness import TRUST_MODELS, Blocks, Row, command_line, race, repeated, show
from benchmarks.naive_dp_nash_vi import NaiveNashVI, PureFirstNashVI, Settings
from benchmarks.subjects import PLANNED_EPISODES, Model, built, trust
from dprl.algorithms import DPNashVIConfig, TabularLearner
from dprl.envs.games import RandomGame
from dprl.privacy.base import Float64Array

MODELS: tuple[Model, ...] = ("jdp", "ldp")
EPSILON = 100.0
# With the paper's bonus all bounds stay clipped at these K and every equilibrium is pure, which is the cheap case. With
# a small bonus most equilibria are mixed.
BONUSES = {"paper's": DPNashVIConfig(), "small": DPNashVIConfig(bonus_scale=0.0001, precision_scale=0.01)}
START = 100_000


class Case(NamedTuple):
    """One random game, and lengths of runs on it."""

    label: str
    spec: RandomGame
    ours: Blocks
    linprog: Blocks
    pure_first: Blocks


def _game(n_states: int, n_actions: int) -> RandomGame:
    return RandomGame(n_states, n_actions, n_actions, horizon=n_states, concentration=0.3)


CASES = (
    Case("S=5 A=B=3 H=5", _game(5, 3), Blocks(5_000), Blocks(2, 3), Blocks(10, 3)),
    Case("S=10 A=B=4 H=10", _game(10, 4), Blocks(700), Blocks(1, 2), Blocks(4, 3)),
)


def mixed_share(policy: Float64Array) -> float:
    """The share of steps and states where a policy [H,S,A,B] is not pure."""
    return float((policy.max(axis=(2, 3)) < 1.0).mean())


def against_linprog(case: Case, bonus: str, model: Model, start: int) -> Row:
    """Time ours and both programs, from episode `start` on."""
    game, chosen = case.spec.build(), BONUSES[bonus]
    learner: TabularLearner = built(chosen, game, trust(model, EPSILON), PLANNED_EPISODES)
    settings = Settings.of(learner.privatizer, chosen)
    learner.learn(start)

    def program(of: type[NaiveNashVI]) -> NaiveNashVI:
        theirs = of(game, PLANNED_EPISODES, settings, np.random.default_rng(0))
        theirs.jump_to(start)
        return theirs

    others = {
        "linprog": (repeated(program(NaiveNashVI).episode), case.linprog),
        "pure_first": (repeated(program(PureFirstNashVI).episode), case.pure_first),
    }
    row: Row = {"case": case.label, "bonus": bonus, "model": model, "privacy": TRUST_MODELS[model]}
    row |= race(learner.learn, case.ours, others)
    row |= {f"over_{name}": row[name] / row["ours"] for name in others}
    return row | {"mixed": mixed_share(np.asarray(learner.policy, dtype=np.float64))}


def run(console: Console, options: argparse.Namespace) -> Row:
    rows = [against_linprog(*cell, 1_000 if options.quick else START) for cell in product(CASES, BONUSES, MODELS)]
    show(
        console,
        "dp_nash_vi: CPU microseconds per episode, and ratios to ours",
        rows,
        "game {case} | bonus {bonus} | privacy {privacy} | ours {ours:.1f} | linprog {linprog:.0f} "
        "| ratio {over_linprog:.0f} | pure first {pure_first:.0f} | ratio {over_pure_first:.0f} | mixed {mixed:.0%}",
    )
    return {"learners": rows}


if __name__ == "__main__":
    sys.exit(command_line(run, __doc__))
