"""Users in blocks, compared with users one by one: CPU seconds of whole runs.

Run from the repository's root: python -m benchmarks.blocks [--quick] [--json PATH]
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from benchmarks.harness import Blocks, Row, built, command_line, microseconds_per_episode
from benchmarks.tabular import random_mdp, riverswim
from dprl.algorithms import ALGORITHMS, TabularLearner
from dprl.envs import Env, RandomGame
from dprl.privacy import CountPrivacy

EPISODES = 10**9
SETTINGS = {"replan_growth": 0.01, "bonus_scale": 0.03, "precision_scale": 0.03}
NOISES: dict[str, CountPrivacy] = {
    "central, (1, 1e-6)": CountPrivacy("jdp", 1.0, 1e-6),
    "local, sampled unary": CountPrivacy("ldp", 1.0),
    "local, Laplace": CountPrivacy("ldp", 1.0, families="separate", mechanism="laplace"),
}


def seconds(env: Env, name: str, privacy: CountPrivacy, episodes: int) -> Row:
    """Return CPU seconds of a run in blocks, and those that users one by one would take."""

    def learner(n: int, simulation: str = "blocks") -> TabularLearner:
        config = ALGORITHMS[name](simulation=simulation, **SETTINGS)  # type: ignore[call-arg]
        made: TabularLearner = built(config, env, privacy, n)
        return made

    learner(10_000).learn(10_000)  # compiles
    blocks = microseconds_per_episode(lambda n: learner(n).learn(n), Blocks(episodes, 1)) * episodes / 1e6
    users = learner(200_000, "users")
    users.learn(1_000)
    one_by_one = microseconds_per_episode(users.learn, Blocks(2_000)) * episodes / 1e6
    return {"in blocks": blocks, "one by one": one_by_one, "ratio": one_by_one / blocks}


def measure(quick: bool) -> Iterator[tuple[str, list[Row]]]:
    episodes = 10**7 if quick else EPISODES
    river, game = riverswim(), RandomGame(n_states=5, n_max_actions=3, n_min_actions=3, horizon=5).build()
    cases: list[tuple[str, Env, str]] = [
        ("RiverSwim S6 H20", river, "private_ucb_vi"),
        ("RiverSwim S6 H20", river, "bernstein_vi"),
        ("random S20 A4 H20", random_mdp(), "private_ucb_vi"),
        ("game S5 A3 B3 H5", game, "dp_nash_vi"),
    ]
    rows = [
        {"environment": label, "algorithm": name, "noise": noise, **seconds(env, name, NOISES[noise], episodes)}
        for (label, env, name), noise in product(cases, NOISES)
    ]
    yield f"CPU seconds of {episodes:.0e} episodes, replan_growth {SETTINGS['replan_growth']:g}", rows


if __name__ == "__main__":
    command_line(measure, __doc__)
