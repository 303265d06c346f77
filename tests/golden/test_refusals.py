"""What each setting of a config refuses, and in which words, is that of the file beside this one.

`DPRL_WRITE_GOLDEN=1 pytest tests/golden` rewrites the file: its diff then shows the changes that a user sees.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from dprl.platform.configs.experiment import read_experiment
from dprl.platform.errors import UserError
from dprl.platform.reports.listing import listing
from tests.golden.test_command_line import FOLDER, check

VALUES = (-1, 0.5, 10**9, "nonsense")
PRIVATE = {"model": "jdp", "epsilon": 1.0}
SETTINGS = ("name", "episodes", "seeds", "seed", "release", "audit", "memory", "label")
SECTIONS = ("algorithm", "env", "privacy", "noise")
NOT_BUILT = {"logged", "gymnasium"}
"""Environments that need a file, or whose messages are in part those of Gymnasium."""


def config(algorithm: dict[str, Any], env: dict[str, Any], privacy: dict[str, Any]) -> dict[str, Any]:
    return {"name": "try", "algorithm": algorithm, "env": env, "privacy": privacy, "episodes": 1000, "seeds": 2}


def outcome(raw: dict[str, Any]) -> str:
    """The message of a refusal."""
    try:
        read_experiment(raw)
    except UserError as error:
        return str(error)
    return "accepted"


def settings(kinds: dict[str, list[dict[str, Any]]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each setting with values most of which are wrong, and the config with it."""
    envs = {entry["kind"]: entry["name"] for entry in reversed(kinds["envs"]) if entry["name"] not in NOT_BUILT}
    players = {entry["plays"]: entry["name"] for entry in reversed(kinds["algorithms"])}
    learners = {entry["releases"]: entry for entry in reversed(kinds["algorithms"])}
    start = config({"name": "private_ucb_vi"}, {"name": "riverswim"}, PRIVATE)
    for key, value in (*itertools.product(SETTINGS, (*VALUES, [1])), *itertools.product(SECTIONS, ("nonsense",))):
        yield f"{key}: {value}", {**start, key: value}
    for entry, key, value in _each(kinds["algorithms"]):
        env = {"name": envs.get(entry["plays"], "riverswim")}
        section = {"name": entry["name"], key: value}
        yield f"{entry['name']}.{key}: {value}", config(section, env, {"model": "none"})
    for entry, key, value in _each(kinds["envs"]):
        section = {"name": entry["name"], key: value}
        yield f"{entry['name']}.{key}: {value}", config({"name": players[entry["kind"]]}, section, {"model": "none"})
    for entry, key, value in _each(kinds["trust_models"]):
        learner, section = learners[entry["releases"]], {"model": entry["name"], "epsilon": 1.0} | {key: value}
        raw = config({"name": learner["name"]}, {"name": envs[learner["plays"]]}, section)
        yield f"{entry['releases']} {entry['name']}.{key}: {value}", raw


def _each(entries: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], str, Any]]:
    for entry in entries:
        for key, value in itertools.product(entry["keys"], VALUES):
            if entry["name"] not in NOT_BUILT:
                yield entry, key["key"], value


def test_refusals_are_unchanged() -> None:
    lines = [f"{name} -> {outcome(raw)}" for name, raw in settings(listing())]
    check(FOLDER / "refusals.txt", "\n".join(lines) + "\n")
