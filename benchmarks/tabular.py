"""Private-UCB-VI and Private-UCB-PO: ours against NumPy and rlberry-scool, as ratios within one run.

It also times the parts of our episode, and plans on a schedule against a plan before every episode.
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
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console

from benchmarks import peer_rlberry, subjects
from benchmarks.harness import (
    TRUST_MODELS,
    Blocks,
    Row,
    Run,
    command_line,
    judged,
    microseconds_per_episode,
    race,
    repeated,
    show,
    verdict,
)
from dprl.algorithms import PrivateUCBVIConfig
from dprl.algorithms.tabular import Released
from dprl.algorithms.tabular.simulator import (
    N_FAMILIES,
    play,
    play_stochastic,
    policy_value,
    simulator,
    stochastic_policy_value,
)
from dprl.envs import FiniteMDP, Garnet
from dprl.privacy import Streams, kernel
from dprl.privacy.base import Float64Array, Int64Array
from dprl.privacy.channel import CHARGED
from dprl.privacy.queries.count_kernels import CountChannel, send_and_release

_ROOT = Path(__file__).resolve().parent.parent
# First timed episode: in the first episodes a tree has few levels, which would favour NumPy.
START = 100_000
_COUNTS_AFTER = 2000


class Case(NamedTuple):
    """One MDP, lengths of runs on it, and goals in the central model: ratios of other programs to ours."""

    label: str
    build: Callable[[], FiniteMDP]
    ours: Blocks
    naive: Blocks
    peer: Blocks
    least: dict[str, float]


CASES = (
    Case(
        "RiverSwim S=6 A=2 H=20",
        subjects.riverswim,
        Blocks(20_000),
        Blocks(300),
        Blocks(200),
        least={"NumPy": 100.0, "rlberry": 150.0},
    ),
    Case(
        "random S=20 A=4 H=20",
        subjects.random_mdp,
        Blocks(2_000),
        Blocks(150),
        Blocks(60),
        least={"NumPy": 20.0, "rlberry": 150.0},
    ),
)


def against_numpy(subject: subjects.Subject, case: Case, model: subjects.Model, start: int) -> Row:
    """Time ours and the two NumPy programs from episode `start` on."""
    mdp = case.build()
    learner = subject.ours(mdp, model, subjects.PLANNED_EPISODES)
    learner.learn(start - 1)
    others = {}
    for name in ("naive", "tuned"):
        program = subject.yardstick(getattr(subject, name), mdp, model, subjects.PLANNED_EPISODES)
        program.jump_to(start)
        others[name] = repeated(program.episode, warm=20), case.naive
    times = race(learner.learn, case.ours, others)
    return {"algorithm": subject.name, "case": case.label, "model": model, **times}


def report_numpy(console: Console, rows: list[Row]) -> None:
    """Print ours against the two NumPy programs, with one table per algorithm."""
    for name in dict.fromkeys(row["algorithm"] for row in rows):
        show(
            console,
            f"{name}: CPU microseconds per episode, and ratios to ours (goals: central)",
            [_with_goals(row) for row in rows if row["algorithm"] == name],
            "MDP {case} | privacy {privacy} | ours {ours:.2f} | NumPy {naive:.0f} "
            "| ratio {over_naive:.0f} | goal {least_naive} | tuned NumPy {tuned:.0f} | ratio {over_tuned:.0f}",
        )


def _with_goals(row: Row) -> Row:
    case, central = {case.label: case for case in CASES}[row["case"]], row["model"] == "jdp"
    least = case.least["NumPy"] if central else None
    return {"privacy": TRUST_MODELS[row["model"]], **judged(row, naive=least, tuned=None)}


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
            goal = verdict(central, case.least["rlberry"])
            row = {"case": case.label, "name": name, "peer": took, "goal": goal}
            peers.append(row | {"over_none": none, "over_central": central})
    except peer_rlberry.PeerUnavailableError as error:
        console.print(f"rlberry not measured: {error}", soft_wrap=True)
        return []
    show(
        console,
        "A peer that draws no noise: CPU microseconds per episode, and ratios to ours",
        peers,
        "MDP {case} | peer {name} | peer us {peer:.0f} | over ours, none {over_none:.0f} "
        "| over ours, central {over_central:.1f} | goal {goal}",
    )
    return peers


def by_length(subject: subjects.Subject, lengths: tuple[int, ...]) -> dict[int, float]:
    """CPU microseconds per episode of whole central runs on RiverSwim, by their number of episodes K.

    The cost of an episode must not grow with the length of the run.
    """
    mdp = subjects.riverswim()

    def once(episodes: int) -> float:
        return microseconds_per_episode(subject.ours(mdp, "jdp", episodes).learn, Blocks(episodes - 1, repeats=1))

    return {k: min(once(k) for _ in range(max(1, min(7, 200_000 // k)))) for k in lengths}


def first_result() -> dict[str, dict[str, float]]:
    """Return CPU seconds of a process's first episode, newly compiled and from the cache on disk."""
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"NUMBA_CACHE_DIR": cache}
        command = [sys.executable, "-m", "benchmarks.subjects"]
        answers = [
            subprocess.run(command, cwd=_ROOT, env=environment, capture_output=True, text=True, check=True)
            for _ in range(2)
        ]
    return {name: json.loads(answer.stdout) for name, answer in zip(("cold", "cached"), answers, strict=True)}


def _plans(plan: Callable[..., Any]) -> Callable[..., None]:
    """Return a kernel that plans n times from the same counts, of which one changes."""

    @kernel
    def plan_often(n: int, counts: Float64Array, bonus: Any, tables: Any) -> None:  # noqa: ANN401
        for _ in range(n):
            counts[0] += 1e-9
            plan(Released(counts, 1, 1), bonus, tables)

    return plan_often


def _values(value: Callable[..., Any]) -> Callable[..., None]:
    """Return a kernel that computes the exact value of n policies; successive ones differ in one entry."""

    @kernel
    def value_often(n: int, simulator: Any, policy: Any) -> None:  # noqa: ANN401
        flat = policy.reshape(policy.size)
        for i in range(n):
            flat[0] = i & 1
            value(simulator, policy)

    return value_often


def _plays(play: Callable[..., Any]) -> Callable[..., None]:
    """Return a kernel that draws, rolls out and records n episodes."""

    @kernel
    def play_often(n: int, simulator: Any, policy: Any) -> None:  # noqa: ANN401
        for user in range(1, n + 1):
            play(simulator, policy, user)

    return play_often


@kernel
def _exchange_often(n: int, channel: CountChannel, cells: Int64Array, amounts: Float64Array) -> None:
    for user in range(1, n + 1):
        channel.cursor[:] = user - 1
        channel.cursor[CHARGED] = user
        send_and_release(channel, cells, amounts, user)


_OWN_PARTS = {
    "private_ucb_vi": (_plays(play), _values(policy_value)),
    "private_ucb_po": (_plays(play_stochastic), _values(stochastic_policy_value)),
}


def parts(subject: subjects.Subject, mdp: FiniteMDP, model: subjects.Model, blocks: Blocks) -> dict[str, float]:
    """Return CPU microseconds of each part of an episode; `exact value` is needed only if the policy has changed."""
    episodes, settings = subjects.PLANNED_EPISODES, subject.settings
    learner = subject.ours(mdp, model, episodes)
    learner.learn(_COUNTS_AFTER)
    plan_often, (play_often, value_often) = _plans(type(settings).plan), _OWN_PARTS[subject.name]
    bonus, tables = settings.bonus(mdp, learner.privatizer, episodes), settings.tables(mdp, episodes)
    counts, policy = learner.privatizer.release().values.copy(), learner.policy
    users = simulator(mdp, episodes, Streams(0, "breakdown"))
    cells = np.zeros((mdp.horizon, N_FAMILIES), dtype=np.int64)
    amounts, channel = np.ones((mdp.horizon, N_FAMILIES)), subject.privatizer(mdp, model, episodes).channel
    runs: dict[str, Run] = {
        "plan": lambda n: plan_often(n, counts, bonus, tables),
        "roll-out": lambda n: play_often(n, users, policy),
        "exchange": lambda n: _exchange_often(n, channel, cells, amounts),
        "exact value": lambda n: value_often(n, users, policy),
    }
    for run in runs.values():
        run(1)
    return {name: microseconds_per_episode(run, blocks) for name, run in runs.items()}


# Scales for which the policy changes within a run of this length at this epsilon.
_LAZY_EPSILON = 100.0
_LAZY_PLANNER = PrivateUCBVIConfig(bonus_scale=0.05, precision_scale=0.001, simulation="users")
GROWTHS = (0.0, 0.002, 0.01)
_LEAST_RATIO, _MOST_LOSS = 8.0, 0.02


def lazy_run(mdp: FiniteMDP, model: subjects.Model, growth: float, seed: int, episodes: int) -> tuple[float, float]:
    """CPU microseconds per episode and regret of a run from its first episode to its last."""
    config = replace(_LAZY_PLANNER, replan_growth=growth)
    learner = subjects.built(config, mdp, subjects.trust(model, _LAZY_EPSILON), episodes, seed)
    regrets = [learner.learn(1).regret]  # compiled before the clock starts
    took = microseconds_per_episode(lambda n: regrets.append(learner.learn(n).regret), Blocks(episodes - 1, repeats=1))
    return took, sum(regrets)


def lazy_planning(episodes: int, seeds: int, mdp: FiniteMDP | None = None) -> list[Row]:
    """Time plans on a schedule, by trust model and `replan_growth`: the cheapest run, and the mean regret of all.

    Schedules take turns within a seed, so that drift of the machine affects all. Goals are for the central model.
    """
    mdp, rows = mdp or subjects.riverswim(), []
    models: tuple[subjects.Model, ...] = ("jdp", "ldp", "none")
    for model in models:
        runs = np.array([[lazy_run(mdp, model, growth, seed, episodes) for growth in GROWTHS] for seed in range(seeds)])
        took, regret = runs[:, :, 0].min(axis=0), runs[:, :, 1].mean(axis=0)
        for i, growth in enumerate(GROWTHS):
            ratio, loss, judged = took[0] / took[i], regret[i] / regret[0] - 1.0, model == "jdp" and i == 1
            row = {"model": model, "growth": growth, "microseconds": took[i], "regret": regret[i], "ratio": ratio}
            row |= {"faster": verdict(ratio, _LEAST_RATIO if judged else None), "loss": loss}
            rows.append(row | {"more": verdict(loss, _MOST_LOSS if judged else None, at_most=True)})
    return rows


# Five of a hundred states may follow: 816,000 counts of all transitions, 56,000 of the possible ones.
LARGE = Garnet(n_states=100, n_actions=4, branching=5, horizon=20)


def large_tables(spec: Garnet, blocks: Blocks) -> Row:
    """Time central private_ucb_vi with `known_transitions` against the same with all transitions."""
    mdp, episodes, runs = spec.build(), subjects.PLANNED_EPISODES, []
    for known in (True, False):
        settings = PrivateUCBVIConfig(bonus_scale=0.01, precision_scale=0.01, known_transitions=known)
        runs.append(replace(subjects.UCB_VI, settings=settings).ours(mdp, "jdp", episodes).learn)
    times = race(runs[0], blocks, {"all": (runs[1], blocks)})
    return {**times, "ratio": (ratio := times["all"] / times["ours"]), "goal": verdict(ratio, 4.0)}


def run(console: Console, options: argparse.Namespace) -> Row:
    compile_seconds = first_result()
    for name, took in compile_seconds.items():
        seconds = f"{took['first_episode']:.2f} s CPU after {took['import']:.2f} s of imports"
        console.print(f"first private episode of a process, {name}: {seconds}")
    cells = list(product(subjects.SUBJECTS, CASES, subjects.MODELS))
    rows = [against_numpy(*cell, 1_000 if options.quick else START) for cell in cells]
    report_numpy(console, rows)
    peers = [] if options.no_peers else measure_peers(console, rows)
    lengths = (1_000, 10_000, 100_000) if options.quick else (1_000, 10_000, 100_000, 1_000_000)
    best = {subject.name: by_length(subject, lengths) for subject in subjects.SUBJECTS}
    for name, times in best.items():
        listed = ", ".join(f"K={episodes:.0e}: {took:.2f}" for episodes, took in times.items())
        console.print(f"whole central runs of {name} on RiverSwim, us per episode: {listed}".replace("e+0", "e"))
    split = {
        f"{subject.name}, {case.label}, {model}": parts(subject, case.build(), model, case.ours)
        for subject, case, model in cells
    }
    show(
        console,
        "Parts of our episode called alone, CPU microseconds",
        [{"label": label} | took for label, took in split.items()],
        "algorithm, MDP, privacy {label} | plan {plan:.2f} | roll-out {roll-out:.2f} | exchange {exchange:.2f} "
        "| exact value {exact value:.2f}",
    )
    large = large_tables(LARGE, Blocks(100))
    show(
        console,
        "private_ucb_vi, S=100 A=4 H=20, 5 next states, central: CPU microseconds per episode",
        [large],
        "possible transitions {ours:.0f} | all {all:.0f} | ratio {ratio:.1f} | goal {goal}",
    )
    episodes, seeds = (50_000, 2) if options.quick else (300_000, 5)
    lazy = lazy_planning(episodes, seeds)
    scales = f"bonus_scale {_LAZY_PLANNER.bonus_scale:g}, precision_scale {_LAZY_PLANNER.precision_scale:g}"
    show(
        console,
        f"Plans on a schedule: RiverSwim S=6 A=2 H=20, K={episodes:,}, epsilon {_LAZY_EPSILON:g}, {scales}, "
        f"{seeds} seeds (goal: central)",
        [row | {"privacy": TRUST_MODELS[row["model"]]} for row in lazy],
        "privacy {privacy} | replan_growth {growth:g} | us an episode {microseconds:.2f} | times faster {ratio:.1f} "
        "| goal {faster} | regret {regret:.0f} | more regret {loss:+.1%} | goal {more}",
    )
    return {
        "first_result_cpu_seconds": compile_seconds,
        "against_numpy": rows,
        "against_peers": peers,
        "by_length": best,
        "parts": split,
        "large_tables": large,
        "lazy_planning": {"episodes": episodes, "seeds": seeds, "rows": lazy},
    }


if __name__ == "__main__":
    sys.exit(command_line(run, __doc__, peer_rlberry.NO_PEERS))
