"""Plans on a schedule against a plan before every episode: time and regret, in one run and as ratios.

Run from the repository's root: python -m benchmarks.lazy_planning [--quick] [--json PATH]
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import subjects
from benchmarks.tabular import verdict
from benchmarks.timing import Blocks, machine, microseconds_per_episode
from dprl.algorithms import PrivateUCBVIConfig
from dprl.envs import FiniteMDP
from dprl.privacy import CentralPrivacy, LocalPrivacy, NoPrivacy, Streams

# Scales at which the policy moves within a run of this length at this epsilon.
EPSILON, BONUS_SCALE, PRECISION_SCALE = 100.0, 0.05, 0.001
TRUSTS: dict[subjects.Model, subjects.Trust] = {
    "jdp": CentralPrivacy(EPSILON),
    "ldp": LocalPrivacy(EPSILON),
    "none": NoPrivacy(),
}
GROWTHS = (0.0, 0.002, 0.01)
LEAST_RATIO, MOST_LOSS = 8.0, 0.02


@dataclass(frozen=True)
class Row:
    """CPU microseconds per episode of the cheapest whole run, and the mean regret of all, at one replan_growth."""

    model: subjects.Model
    growth: float
    microseconds: float
    regret: float


@dataclass(frozen=True)
class Effort:
    """How long runs are, and how many: seeds 0, 1, ..."""

    episodes: int
    seeds: int


def whole_run(mdp: FiniteMDP, model: subjects.Model, growth: float, seed: int, episodes: int) -> tuple[float, float]:
    """CPU microseconds per episode and regret of a run from its first episode to its last."""
    config = PrivateUCBVIConfig(bonus_scale=BONUS_SCALE, precision_scale=PRECISION_SCALE, replan_growth=growth)
    streams = Streams(seed, "benchmark")
    learner = config.build(mdp, config.privatizer(mdp, TRUSTS[model], episodes, streams), episodes, streams)
    regret = learner.learn(1).regret  # compiled before the clock starts
    parts: list[float] = []
    took = microseconds_per_episode(lambda n: parts.append(learner.learn(n).regret), Blocks(episodes - 1, repeats=1))
    return took, regret + sum(parts)


def measure(effort: Effort, mdp: FiniteMDP | None = None) -> list[Row]:
    """Time every trust model and schedule, schedules in turn within a seed, so that drift meets all of them."""
    mdp, rows = mdp or subjects.riverswim(), []
    for model in TRUSTS:
        runs = np.array(
            [
                [whole_run(mdp, model, growth, seed, effort.episodes) for growth in GROWTHS]
                for seed in range(effort.seeds)
            ]
        )
        best, mean = runs[:, :, 0].min(axis=0), runs[:, :, 1].mean(axis=0)
        rows += [Row(model, *map(float, numbers)) for numbers in zip(GROWTHS, best, mean, strict=True)]
    return rows


def report(console: Console, rows: list[Row], effort: Effort) -> None:
    """One line for every trust model and schedule; the goal is for the central model."""
    table = Table(
        title=f"RiverSwim S=6 A=2 H=20, K={effort.episodes:,}, epsilon {EPSILON:g}, bonus_scale {BONUS_SCALE:g}, "
        f"precision_scale {PRECISION_SCALE:g}, {effort.seeds} seeds (goal: central, AVX-512)"
    )
    for heading in (
        "privacy",
        "replan_growth",
        "us an episode",
        "times faster",
        "goal",
        "regret",
        "more regret",
        "goal",
    ):
        table.add_column(heading, justify="left" if heading in {"privacy", "goal"} else "right")
    every_episode = {row.model: row for row in rows if row.growth == 0.0}
    for row in rows:
        base = every_episode[row.model]
        ratio, loss = base.microseconds / row.microseconds, row.regret / base.regret - 1.0
        aimed = row.model == "jdp" and row.growth == GROWTHS[1]
        table.add_row(
            {"none": "none", "jdp": "central", "ldp": "local"}[row.model],
            f"{row.growth:g}",
            f"{row.microseconds:.2f}",
            f"{ratio:.1f}",
            verdict(ratio, LEAST_RATIO) if aimed else "",
            f"{row.regret:.0f}",
            f"{loss:+.1%}",
            verdict(loss, MOST_LOSS, at_most=True) if aimed else "",
        )
    console.print(table)


def main() -> int:
    """Measure, print, and write JSON if asked to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lazy_planning", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write all figures here")
    parser.add_argument("--quick", action="store_true", help="shorter and fewer runs")
    arguments = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    effort = Effort(50_000, 2) if arguments.quick else Effort(300_000, 5)
    here = machine()
    console.print(", ".join(f"{key} {value}" for key, value in here.items()))
    rows = measure(effort)
    report(console, rows, effort)
    if arguments.json:
        document = {"machine": here, "effort": asdict(effort), "rows": [asdict(row) for row in rows]}
        arguments.json.write_text(json.dumps(document, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
