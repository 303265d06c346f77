"""Private-UCB-VI and Private-UCB-PO: ours against NumPy, as ratios within one run.

Run from the repository's root: python -m benchmarks.tabular [--quick] [--json PATH]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import NamedTuple

import numpy as np

from benchmarks.harness import PRIVACY, Blocks, Model, Row, built, command_line, race, repeated, trust
from benchmarks.naive_ucb_po import NaiveUCBPO
from benchmarks.naive_ucb_vi import NaiveUCBVI
from dprl.algorithms import PrivateUCBPOConfig, PrivateUCBVIConfig, TabularMDPConfig
from dprl.envs import FiniteMDP, RandomMDP, RiverSwim

# Small scales keep the optimistic values below their cap, so that the policy changes and its exact value is computed
# repeatedly, the more expensive case. At scale 1 and these K all cells are saturated and the policy never changes.
SUBJECTS: dict[TabularMDPConfig, type[NaiveUCBVI]] = {
    PrivateUCBVIConfig(bonus_scale=0.01, precision_scale=0.01): NaiveUCBVI,
    PrivateUCBPOConfig(bonus_scale=0.01, precision_scale=0.01): NaiveUCBPO,
}
START = 100_000  # First timed episode: in the first episodes a tree has few levels, which would favour NumPy.


def riverswim() -> FiniteMDP:
    """RiverSwim with S = 6, A = 2, H = 20."""
    return RiverSwim(n_states=6, horizon=20).build()


def random_mdp() -> FiniteMDP:
    """Return a random MDP with S = 20, A = 4, H = 20; all steps are alike, because rlberry knows no other MDPs."""
    drawn = RandomMDP(n_states=20, n_actions=4, horizon=20).build()
    transitions = np.broadcast_to(drawn.transitions[:1], drawn.transitions.shape)
    rewards = np.broadcast_to(drawn.rewards[:1], drawn.rewards.shape)
    return FiniteMDP("random S20 A4 H20", transitions, rewards, drawn.start)


class Case(NamedTuple):
    """One MDP, and lengths of runs on it."""

    label: str
    build: Callable[[], FiniteMDP]
    ours: Blocks
    naive: Blocks
    peer: Blocks


CASES = (
    Case("RiverSwim S=6 A=2 H=20", riverswim, Blocks(20_000), Blocks(300), Blocks(200)),
    Case("random S=20 A=4 H=20", random_mdp, Blocks(2_000), Blocks(150), Blocks(60)),
)


def against_numpy(config: TabularMDPConfig, case: Case, model: Model, start: int) -> Row:
    """Time ours and the NumPy program with the same noise, precisions and bonus, from episode `start` on."""
    mdp = case.build()
    learner = built(config, mdp, trust(model))
    learner.learn(start)
    program = SUBJECTS[config](mdp, learner, np.random.default_rng(0))
    program.jump_to(start)
    times = race(learner.learn, case.ours, repeated(program.episode, warm=20), case.naive)
    return {"algorithm": config.name, "MDP": case.label, "privacy": PRIVACY[model], **times}


def measure(quick: bool) -> Iterator[tuple[str, list[Row]]]:
    rows = [against_numpy(*cell, 1_000 if quick else START) for cell in product(SUBJECTS, CASES, PRIVACY)]
    yield "CPU microseconds per episode, ours and NumPy", rows


if __name__ == "__main__":
    command_line(measure, __doc__)
