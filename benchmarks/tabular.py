"""Private-UCB-VI and Private-UCB-PO: ours against NumPy and, the first, rlberry-scool, in one run and as ratios.

Run from the repository's root: python -m benchmarks.tabular [--quick] [--no-peers] [--json PATH]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import breakdown, peer_rlberry, subjects
from benchmarks.naive_ucb_vi import NaiveUCBVI
from benchmarks.timing import Blocks, machine, microseconds_per_episode
from dprl.envs import FiniteMDP

_ROOT = Path(__file__).resolve().parent.parent
# Timing starts here: at the very first episodes a tree has few levels, which would flatter NumPy.
START = 100_000


@dataclass(frozen=True)
class Case:
    """One MDP, how long to run on it, and what we aim at in the central model on AVX-512.

    most_microseconds: for an episode of each algorithm, by its name.
    """

    label: str
    build: Callable[[], FiniteMDP]
    ours: Blocks
    naive: Blocks
    peer: Blocks
    most_microseconds: dict[str, float]
    least_over_numpy: float
    least_over_peer: float
    least_over_compiled_peer: float


CASES = (
    Case(
        "RiverSwim S=6 A=2 H=20",
        subjects.riverswim,
        Blocks(20_000),
        Blocks(300),
        Blocks(200),
        most_microseconds={"private_ucb_vi": 4.0, "private_ucb_po": 5.0},
        least_over_numpy=100.0,
        least_over_peer=150.0,
        least_over_compiled_peer=60.0,
    ),
    Case(
        "random S=20 A=4 H=20",
        subjects.random_mdp,
        Blocks(2_000),
        Blocks(150),
        Blocks(60),
        most_microseconds={"private_ucb_vi": 40.0},
        least_over_numpy=20.0,
        least_over_peer=150.0,
        least_over_compiled_peer=5.0,
    ),
)


@dataclass(frozen=True)
class Row:
    """CPU microseconds per episode of one algorithm on one MDP under one trust model."""

    algorithm: str
    case: str
    model: subjects.Model
    ours: float
    naive: float
    tuned: float


@dataclass(frozen=True)
class PeerRow:
    """A peer's CPU microseconds per episode, and the goal for the ratio to ours in the central model."""

    case: str
    name: str
    peer: float
    ours_none: float
    ours_central: float
    goal: float


def against_numpy(subject: subjects.Subject, case: Case, model: subjects.Model, start: int) -> Row:
    """Time ours before and after the two NumPy programs, so that drift of the machine shows as a larger minimum."""
    mdp = case.build()
    learner = subject.ours(mdp, model, subjects.PLANNED_EPISODES)
    learner.learn(start - 1)
    before = microseconds_per_episode(learner.learn, case.ours)
    naive, tuned = (
        _time_numpy(subject.yardstick(program, mdp, model, subjects.PLANNED_EPISODES), start, case.naive)
        for program in (subject.naive, subject.tuned)
    )
    after = microseconds_per_episode(learner.learn, case.ours)
    return Row(subject.settings.name, case.label, model, min(before, after), naive, tuned)


def _time_numpy(learner: NaiveUCBVI, start: int, blocks: Blocks) -> float:
    learner.jump_to(start)

    def run(n: int) -> None:
        for _ in range(n):
            learner.episode()

    run(20)
    return microseconds_per_episode(run, blocks)


def against_peer(case: Case, rows: list[Row]) -> list[PeerRow]:
    """rlberry-scool as shipped, and with its planner compiled, which is the harder comparison."""
    name = subjects.UCB_VI.settings.name
    ours = {row.model: row.ours for row in rows if row.case == case.label and row.algorithm == name}
    mdp = case.build()
    answers = []
    for compiled, goal in ((False, case.least_over_peer), (True, case.least_over_compiled_peer)):
        effort = peer_rlberry.Effort(case.peer.episodes, repeats=case.peer.repeats)
        timing = peer_rlberry.measure(mdp, effort, compiled)
        peer = f"{timing.name}, {'compiled' if compiled else 'as shipped'}"
        answers.append(PeerRow(case.label, peer, timing.microseconds, ours["none"], ours["jdp"], goal))
    return answers


def by_length(subject: subjects.Subject, lengths: tuple[int, ...]) -> dict[int, float]:
    """CPU microseconds per episode of whole central runs on RiverSwim, by their number of episodes K."""
    mdp = subjects.riverswim()
    best = {}
    for episodes in lengths:
        times = []
        for _ in range(max(1, min(7, 200_000 // episodes))):
            learner = subject.ours(mdp, "jdp", episodes)
            times.append(microseconds_per_episode(learner.learn, Blocks(episodes - 1, repeats=1)))
        best[episodes] = min(times)
    return best


def first_result() -> dict[str, dict[str, float]]:
    """CPU seconds of the first episode of a process, compiled afresh and taken from the cache on disk."""
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"NUMBA_CACHE_DIR": cache}
        command = [sys.executable, "-m", "benchmarks.first_result"]
        answers = [
            subprocess.run(command, cwd=_ROOT, env=environment, capture_output=True, text=True, check=True)
            for _ in range(2)
        ]
    return {name: json.loads(answer.stdout) for name, answer in zip(("cold", "cached"), answers, strict=True)}


def main() -> int:
    """Measure, print, and write JSON if asked to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tabular", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write all figures here")
    parser.add_argument("--no-peers", action="store_true", help="do not install and run rlberry")
    parser.add_argument("--quick", action="store_true", help="shorter runs that start at episode 1000")
    arguments = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    here = machine()
    console.print(", ".join(f"{key} {value}" for key, value in here.items()))
    compile_seconds = first_result()
    report_first_result(console, compile_seconds)
    start = 1_000 if arguments.quick else START
    rows = [
        against_numpy(subject, case, model, start)
        for subject in subjects.SUBJECTS
        for case in CASES
        for model in subjects.MODELS
    ]
    report_numpy(console, rows)
    peers = [] if arguments.no_peers else measure_peers(console, rows)
    lengths = (1_000, 10_000, 100_000) if arguments.quick else (1_000, 10_000, 100_000, 1_000_000)
    lengths_taken = {subject.settings.name: by_length(subject, lengths) for subject in subjects.SUBJECTS}
    report_lengths(console, lengths_taken)
    parts = {
        f"{subject.settings.name}, {case.label}, {model}": breakdown.parts(subject, case.build(), model, case.ours)
        for subject in subjects.SUBJECTS
        for case in CASES
        for model in subjects.MODELS
    }
    report_parts(console, parts)
    if arguments.json:
        document = {
            "machine": here,
            "first_result_cpu_seconds": compile_seconds,
            "against_numpy": [asdict(row) for row in rows],
            "against_peers": [asdict(row) for row in peers],
            "by_length": lengths_taken,
            "parts": parts,
        }
        arguments.json.write_text(json.dumps(document, indent=2) + "\n")
    return 0


def measure_peers(console: Console, rows: list[Row]) -> list[PeerRow]:
    """Measure and report the peers, or say in one line why not."""
    try:
        peers = [answer for case in CASES for answer in against_peer(case, rows)]
    except peer_rlberry.PeerUnavailableError as error:
        console.print(f"rlberry not measured: {error}", soft_wrap=True)
        return []
    report_peers(console, peers)
    return peers


def verdict(value: float, goal: float, at_most: bool = False) -> str:
    """The goal beside its number."""
    met = value <= goal if at_most else value >= goal
    return f"{'<=' if at_most else '>='} {goal:g} {'[green]met[/]' if met else '[red]missed[/]'}"


def report_first_result(console: Console, seconds: dict[str, dict[str, float]]) -> None:
    """Compilation, apart from everything else."""
    for name, took in seconds.items():
        console.print(
            f"first private episode of a process, {name}: {took['first_episode']:.2f} s CPU "
            f"after {took['import']:.2f} s of imports"
        )


def report_numpy(console: Console, rows: list[Row]) -> None:
    """Ours against the two NumPy programs, a table for each algorithm."""
    for name in dict.fromkeys(row.algorithm for row in rows):
        _report_algorithm(console, name, [row for row in rows if row.algorithm == name])


def _report_algorithm(console: Console, name: str, rows: list[Row]) -> None:
    table = Table(title=f"{name}: CPU microseconds per episode, and ratios to ours (goals: central, AVX-512)")
    for heading in ("MDP", "privacy", "ours", "goal", "NumPy", "ratio", "goal", "tuned NumPy", "ratio"):
        table.add_column(heading, justify="left" if heading in ("MDP", "privacy", "goal") else "right")
    cases = {case.label: case for case in CASES}
    for row in rows:
        case, central = cases[row.case], row.model == "jdp"
        most = case.most_microseconds.get(name)
        table.add_row(
            row.case,
            {"none": "none", "jdp": "central", "ldp": "local"}[row.model],
            f"{row.ours:.2f}",
            verdict(row.ours, most, at_most=True) if central and most else "",
            f"{row.naive:.0f}",
            f"{row.naive / row.ours:.0f}",
            verdict(row.naive / row.ours, case.least_over_numpy) if central else "",
            f"{row.tuned:.0f}",
            f"{row.tuned / row.ours:.0f}",
        )
    console.print(table)


def report_peers(console: Console, peers: list[PeerRow]) -> None:
    """Ours against rlberry-scool, which draws no noise; the fair ratio is the one without privacy."""
    table = Table(title="A peer that draws no noise: CPU microseconds per episode, and ratios to ours")
    for heading in ("MDP", "peer", "peer us", "over ours, none", "over ours, central", "goal"):
        table.add_column(heading, justify="left" if heading in ("MDP", "peer", "goal") else "right")
    for row in peers:
        ratio = row.peer / row.ours_central
        table.add_row(
            row.case,
            row.name,
            f"{row.peer:.0f}",
            f"{row.peer / row.ours_none:.0f}",
            f"{ratio:.1f}",
            verdict(ratio, row.goal),
        )
    console.print(table)


def report_lengths(console: Console, best: dict[str, dict[int, float]]) -> None:
    """The cost of an episode must not grow with the length of the run."""
    for name, times in best.items():
        listed = ", ".join(f"K={episodes:.0e}: {took:.2f}" for episodes, took in times.items())
        console.print(f"whole central runs of {name} on RiverSwim, us per episode: {listed}".replace("e+0", "e"))


def report_parts(console: Console, parts: dict[str, dict[str, float]]) -> None:
    """Where our time goes."""
    table = Table(title="Parts of our episode called alone, CPU microseconds")
    table.add_column("algorithm, MDP, privacy")
    for heading in next(iter(parts.values())):
        table.add_column(heading, justify="right")
    for label, took in parts.items():
        table.add_row(label, *(f"{value:.2f}" for value in took.values()))
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
