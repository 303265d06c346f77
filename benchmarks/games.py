"""DP-Nash-VI: ours against a program with the paper's linear programmes, as ratios within one run.

Run from the repository's root: python -m benchmarks.games [--quick] [--json PATH]
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import numpy as np

from benchmarks.harness import PRIVACY, Blocks, Model, Row, built, command_line, race, repeated, trust
from benchmarks.naive_dp_nash_vi import NaiveNashVI
from dprl.algorithms import DPNashVIConfig
from dprl.envs.games import RandomGame

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


CASES = (
    Case("S=5 A=B=3 H=5", RandomGame(5, 3, 3, horizon=5, concentration=0.3), Blocks(5_000), Blocks(2, 3)),
    Case("S=10 A=B=4 H=10", RandomGame(10, 4, 4, horizon=10, concentration=0.3), Blocks(700), Blocks(1, 2)),
)


def against_linprog(case: Case, bonus: str, model: Model, start: int) -> Row:
    """Time both from episode `start` on. mixed: share of steps and states where our policy is not pure."""
    game, chosen = case.spec.build(), BONUSES[bonus]
    learner = built(chosen, game, trust(model, EPSILON))
    learner.learn(start)
    program = NaiveNashVI(game, learner, np.random.default_rng(0))
    program.jump_to(start)
    times = race(learner.learn, case.ours, repeated(program.episode), case.linprog)
    mixed = float((np.asarray(learner.policy).max(axis=(2, 3)) < 1.0).mean())
    return {"game": case.label, "bonus": bonus, "privacy": PRIVACY[model], **times, "mixed": mixed}


def measure(quick: bool) -> Iterator[tuple[str, list[Row]]]:
    rows = [against_linprog(*cell, 1_000 if quick else START) for cell in product(CASES, BONUSES, MODELS)]
    yield "dp_nash_vi: CPU microseconds per episode, ours and linprog", rows


if __name__ == "__main__":
    command_line(measure, __doc__)
