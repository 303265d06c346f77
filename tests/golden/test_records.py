"""Runs give the numbers of the file records.json: every algorithm under its trust models, with pinned streams.

The file is that of one RESULTS_VERSION. `DPRL_WRITE_GOLDEN=1 pytest tests/golden -n0` rewrites it. A run is stopped
after its second stretch and resumed from its state. Numbers agree to 1e-9: the kernels' bits are the same everywhere,
the calibrated scales may not be.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dprl.algorithms import ALGORITHMS
from dprl.envs import ControlTask, LoggedControl, LoggedEpisodes
from dprl.platform.configs.experiment import read_experiment
from dprl.privacy import Streams
from dprl.sources import RESULTS_VERSION
from tests.golden.released import released

FILE = Path(__file__).with_name("records.json")
WRITES = os.environ.get("DPRL_WRITE_GOLDEN") == "1"
USERS, STRETCHES, SHOWN = 60, (1, 20, 39), 6
EXACT = {"arithmetic": "exact"}
JDP, LDP = {"model": "jdp", "epsilon": 20.0}, {"model": "ldp", "epsilon": 200.0}
LOCAL = {**LDP, "families": "separate"}
TREE = {**JDP, "counter": "binary_tree", "families": "separate"}
AUTO = {"counter": "auto", "mechanism": "auto"}
Case = tuple[dict[str, Any], dict[str, Any]]

ENVS: dict[str, dict[str, Any]] = {
    "FiniteMDP": {"name": "riverswim", "n_states": 3, "horizon": 4},
    "MarkovGame": {"name": "random_game", "n_states": 2, "n_max_actions": 2, "n_min_actions": 2, "horizon": 3},
    "LinearMixtureMDP": {"name": "network_mdp", "dimension": 3, "signs": "random", "horizon": 4},
    "CartPoleGravity": {"name": "cartpole_gravity"},
}
PRIVACY: dict[str, dict[str, Case]] = {
    "counts": {
        "none": ({"model": "none"}, {}),
        "jdp": (TREE, {}),
        "jdp, exact": (TREE, EXACT),
        "jdp, auto": ({**TREE, **AUTO, "delta": 1e-6}, {}),
        "jdp, short": ({**JDP, "delta": 1e-6}, {}),
        "ldp": (LOCAL, {}),
        "ldp, exact": (LOCAL, EXACT),
        "ldp, short": (LDP, {}),
        "ldp, Gaussian, separate": ({**LDP, "delta": 1e-6, "mechanism": "gaussian"}, {}),
    },
    "gradients": {
        "none": ({"model": "none"}, {}),
        "laplace": ({**LDP, "mechanism": "clipped_laplace"}, {}),
        "laplace, exact": ({**LDP, "mechanism": "clipped_laplace"}, EXACT),
        "trusted server": ({"model": "jdp", "epsilon": 9.0}, {}),
        "trusted server, exact": (
            {"model": "jdp", "epsilon": 9.0, "delta": 1e-6, "mechanism": "clipped_gaussian", "submissions": 3},
            EXACT,
        ),
        "signs": ({"model": "ldp", "epsilon": 5.0, "mechanism": "projected_random_sign"}, {}),
        "privunit": ({"model": "ldp", "epsilon": 9.0, "mechanism": "privunit"}, {}),
        "three submissions": ({**LDP, "submissions": 3}, {}),
    },
    "statistics": {
        "none": ({"model": "none"}, {}),
        "none, clipped": ({"model": "none", "rewards": "public", "clipping": "device"}, {}),
        "printed": ({"model": "ldp", "epsilon": 100.0, "calibration": "printed"}, {}),
        "trusted server": ({"model": "jdp", "epsilon": 1e4, "counter": "binary_tree"}, {}),
        "trusted server, auto": (
            {"model": "jdp", "epsilon": 1e3, "delta": 1e-3, "mechanism": "gram_gaussian", "counter": "auto"},
            {},
        ),
        "laplace": ({"model": "ldp", "epsilon": 1e4}, {}),
        "gaussian": ({"model": "ldp", "epsilon": 1e3, "delta": 1e-3, "mechanism": "gram_gaussian"}, {}),
    },
}
ONE_ALGORITHM: dict[str, Case] = {
    **{
        f"jdp, {counter}": ({**TREE, "delta": 1e-6, "counter": counter, "mechanism": "gaussian"}, {})
        for counter in ("kary_tree", "buffered_toeplitz")
    },
    "jdp, one-hot": ({**TREE, "families": "one_hot"}, {}),
    "jdp, printed": ({**JDP, "calibration": "printed"}, {}),
    "ldp, sampled": ({**LDP, "families": "one_hot", "mechanism": "sampled_optimized_unary_encoding"}, EXACT),
}
"""Noise tested with private_ucb_vi only."""
SETTINGS: dict[str, dict[str, Any]] = {
    "ma_ldp": {"bonus_scale": 0.001, "shift_scale": 0.01},
    "pgc_a3c": {"learning_rate": 0.05, "buffer_size": 5},
}
"""A small bonus, so that policies change within so few episodes."""
VERSION = "RESULTS_VERSION"
REMEDY = (
    "raise RESULTS_VERSION in package/sources.py, add a line to CHANGELOG.md, and rewrite this file "
    "(DPRL_WRITE_GOLDEN=1 pytest tests/golden -n0)"
)
PRACTICAL = {"bonus_scale": 0.02, "precision_scale": 0.05}


def cases() -> Iterator[tuple[str, str, Case]]:
    for name, config in ALGORITHMS.items():
        if config.plays in (ControlTask, LoggedControl):
            continue  # torch's sums differ between processors
        if config.plays is LoggedEpisodes:
            continue  # it has offline_vi's records, tests/algorithms/test_logged_vi.py, and refuses noise of a seed
        for kind, case in PRIVACY[config.releases].items():
            yield name, kind, case
        if name == "private_ucb_vi":
            for kind, case in ONE_ALGORITHM.items():
                yield name, kind, case


CASES = {f"{name} | {kind}": (name, *case) for name, kind, case in cases()}


def learner(name: str, privacy: dict[str, Any], noise: dict[str, Any]) -> Any:
    config = ALGORITHMS[name]
    settings = SETTINGS.get(name, PRACTICAL if config.releases == "counts" else {})
    cell = read_experiment(
        {
            "name": "golden",
            "algorithm": {"name": name, **settings},
            "env": ENVS[config.plays.__name__],
            "privacy": privacy,
            "episodes": USERS,
            "seeds": 1,
            "noise": noise,
        }
    )
    env, streams = cell.env.build(), Streams(7, "golden", cell.noise)
    return cell.algorithm.build(env, cell.algorithm.privatizer(env, cell.privacy, USERS, streams), USERS, streams)


def record(case: str) -> dict[str, list[float]]:
    """Return metrics by stretch, and of what was released and planned a checksum and the first numbers."""
    running = learner(*CASES[case])
    found: dict[str, list[float]] = {}
    for i, stretch in enumerate(STRETCHES):
        for metric, value in running.learn(stretch).items():
            found.setdefault(metric, []).append(float(value))
        if i == 1:
            state, running = running.state_dict(), learner(*CASES[case])
            running.load_state_dict(state)
    for name, table in {**running.policies, "released": released(running)}.items():
        flat = np.asarray(table, dtype=np.float64).ravel()
        found[name] = [float(flat @ np.cos(np.arange(flat.size))), *map(float, flat[:SHOWN])]
    return found


@pytest.fixture(scope="module")
def golden() -> Iterator[dict[str, Any]]:
    """The file's content, or what is to be written into it."""
    found: dict[str, Any] = {VERSION: RESULTS_VERSION} if WRITES else json.loads(FILE.read_text())
    yield found
    if WRITES:
        lines = [f"{json.dumps(case)}: {json.dumps(each)}" for case, each in found.items()]
        FILE.write_text("{" + ",\n".join(lines) + "}\n")


@pytest.mark.parametrize("case", CASES)
def test_records_are_unchanged(case: str, golden: dict[str, Any]) -> None:
    found = record(case)
    if WRITES:
        golden[case] = found
        return
    assert found.keys() == golden[case].keys()
    changed = {name: (before, found[name]) for name, before in golden[case].items() if not agree(before, found[name])}
    assert not changed, f"the records have changed: {REMEDY}"


def test_the_file_is_that_of_this_version_of_results(golden: dict[str, Any]) -> None:
    assert golden[VERSION] == RESULTS_VERSION, REMEDY


def agree(before: list[float], after: list[float]) -> bool:
    pairs = zip(before, after, strict=True)
    return all(math.isclose(old, new, rel_tol=1e-9, abs_tol=1e-9) or old == new for old, new in pairs)
