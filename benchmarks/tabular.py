"""Private-UCB-VI and Private-UCB-PO: ours against NumPy and rlberry-scool, as ratios within one run.

Run from the repository's root: python -m benchmarks.tabular [--quick] [--no-peers] [--json PATH]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from itertools import product
from typing import NamedTuple

from rich.console import Console

from benchmarks import peer_rlberry, subjects
from benchmarks.harness import TRUST_MODELS, Blocks, Row, command_line, race, repeated, show
from dprl.envs import FiniteMDP

# First timed episode: in the first episodes a tree has few levels, which would favour NumPy.
START = 100_000


class Case(NamedTuple):
    """One MDP, and lengths of runs on it."""

    label: str
    build: Callable[[], FiniteMDP]
    ours: Blocks
    naive: Blocks
    peer: Blocks


CASES = (
    Case("RiverSwim S=6 A=2 H=20", subjects.riverswim, Blocks(20_000), Blocks(300), Blocks(200)),
    Case("random S=20 A=4 H=20", subjects.random_mdp, Blocks(2_000), Blocks(150), Blocks(60)),
)


def against_numpy(subject: subjects.Subject, case: Case, model: subjects.Model, start: int) -> Row:
    """Time ours and the NumPy program from episode `start` on."""
    mdp = case.build()
    learner = subject.ours(mdp, model, subjects.PLANNED_EPISODES)
    learner.learn(start - 1)
    program = subject.yardstick(mdp, model, subjects.PLANNED_EPISODES)
    program.jump_to(start)
    times = race(learner.learn, case.ours, {"naive": (repeated(program.episode, warm=20), case.naive)})
    row = {"algorithm": subject.name, "case": case.label, "model": model, "privacy": TRUST_MODELS[model]}
    return {**row, **times, "ratio": times["naive"] / times["ours"]}


def measure_peers(console: Console, rows: list[Row]) -> list[Row]:
    """Time rlberry-scool, or print the reason why it is not measured.

    It draws no noise; the fair ratio is the one without privacy.
    """
    peers: list[Row] = []
    ours = {(row["case"], row["model"]): row["ours"] for row in rows if row["algorithm"] == subjects.UCB_VI.name}
    try:
        for case in CASES:
            name, took = peer_rlberry.measure(case.build(), case.peer)
            none, central = (took / ours[case.label, model] for model in ("none", "jdp"))
            peers.append({"case": case.label, "name": name, "peer": took, "over_none": none, "over_central": central})
    except peer_rlberry.PeerUnavailableError as error:
        console.print(f"rlberry not measured: {error}", soft_wrap=True)
        return []
    show(
        console,
        "A peer that draws no noise: CPU microseconds per episode, and ratios to ours",
        peers,
        "MDP {case} | peer {name} | peer us {peer:.0f} | over ours, none {over_none:.0f} "
        "| over ours, central {over_central:.1f}",
    )
    return peers


def run(console: Console, options: argparse.Namespace) -> Row:
    cells = product(subjects.SUBJECTS, CASES, subjects.MODELS)
    rows = [against_numpy(*cell, 1_000 if options.quick else START) for cell in cells]
    show(
        console,
        "CPU microseconds per episode, and ratios to ours",
        rows,
        "algorithm {algorithm} | MDP {case} | privacy {privacy} | ours {ours:.2f} | NumPy {naive:.0f} "
        "| ratio {ratio:.0f}",
    )
    return {"against_numpy": rows, "against_peers": [] if options.no_peers else measure_peers(console, rows)}


if __name__ == "__main__":
    sys.exit(command_line(run, __doc__, peer_rlberry.NO_PEERS))
