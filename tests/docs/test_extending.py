"""The files of docs/extending themselves: registered from outside, certified, run, audited, swept on Ray."""

from __future__ import annotations

import json
import shutil
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dprl as dprl_package
from tests.docs.examples import EXAMPLES, copied, dprl, python, together

NAMES = list(EXAMPLES.values())
TINY = ("--set", "episodes=60", "--set", "seeds=2")


@pytest.fixture(scope="module")
def user(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copied(root, tmp_path_factory.mktemp("user"))


def test_they_are_listed_and_certified(user: Path) -> None:
    listed, *certified = together(user, ("list", "--json"), *(("certify", f"{name}.yaml", "--json") for name in NAMES))
    kinds = json.loads(listed)
    for kind, place in (("algorithms", "algorithm"), ("envs", "env")):
        assert EXAMPLES[place] in {entry["name"] for entry in kinds[kind]}
    for text in certified:
        cells = json.loads(text)
        private = [cell for cell in cells if cell["trust_model"] != "none"]
        assert len(private) >= 1
        assert {cell["verdict"] for cell in private} == {"holds"}


def test_without_the_variable_they_are_unknown(user: Path) -> None:
    lines = together(user, *(("certify", f"{name}.yaml") for name in NAMES), expect=2, plugins="")
    for name, line in zip(NAMES, lines, strict=True):
        assert line.count("\n") == 1
        assert name in line


def test_environments_of_the_page_have_tables_that_their_steps_follow(root: Path) -> None:
    text = (root / "docs" / "extending" / "environment.md").read_text()
    blocks = [block.partition("```")[0] for block in text.split("```python\n")[1:]]
    tables = [block for block in blocks if "initial_state_distrib" in block]
    assert len(tables) == 2
    for block in tables:
        names: dict[str, Any] = {}
        exec(block, names)
        assert sum(bool(line) for line in block.splitlines()) <= 30
    assert dprl_package.from_gymnasium("Corridor-v0", horizon=5).sizes == (5, 5, 2)
    assert dprl_package.from_gymnasium("Clinic-v0").sizes == (12, 6, 2)


@pytest.mark.slow
def test_the_game_runs(user: Path, root: Path) -> None:
    for suffix in (".py", ".yaml"):
        shutil.copy(root / "docs" / "extending" / "game" / f"hide_and_seek{suffix}", user)
    dprl(user, "run", "hide_and_seek.yaml", *TINY, plugins="hide_and_seek")
    summary = pd.read_csv(user / "home" / "sweeps" / "hide_and_seek" / "summary.csv")
    assert np.isfinite(summary["exploitability"]).all()


def test_packages_name_their_module_as_a_plugin(root: Path) -> None:
    for kind, module in {**EXAMPLES, "game": "hide_and_seek"}.items():
        project = tomllib.loads((root / "docs" / "extending" / kind / "pyproject.toml").read_text())
        assert project["project"]["entry-points"] == {"dprl.plugins": {module: module}}
        assert project["tool"]["setuptools"]["py-modules"] == [module]


@pytest.mark.slow
def test_they_run_and_hand_over_policies_that_load(user: Path) -> None:
    for name in EXAMPLES.values():
        dprl(user, "run", f"{name}.yaml", *TINY)
        folder = user / "home" / "sweeps" / name
        summary = pd.read_csv(folder / "summary.csv")
        assert len(summary) == len(json.loads(dprl(user, "certify", f"{name}.yaml", "--json")))
        assert np.isfinite(summary["regret"]).all()
        cell = folder / "cells" / summary["cell"].iloc[0]
        code = (
            f"from dprl.platform.policies import load_policy; policy = load_policy({str(cell)!r}); "
            "print(policy.mdp.optimal_start_value() - policy.start_value)"
        )
        loss = float(python(user, ["-c", code]))
        records = pd.read_parquet(cell / "records.parquet")
        regret = records[records["seed"] == records["seed"].iloc[0]].sort_values("episode")["regret"]
        assert loss == pytest.approx(regret.iloc[-1] - regret.iloc[-2], abs=1e-9)  # the policy of the last episode


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_contract_suites_take_the_parts_of_a_plugin(user: Path, root: Path) -> None:
    """One test of each suite is enough here: it covers the part and passes. Authors run all of them."""
    quick = "simple_ucb and (frozen or policies_are_valid or bad_settings or charged)"
    suites = ("algorithms/test_learner_contract.py", "algorithms/test_contract.py")
    for suite, which in (*((suite, quick) for suite in suites), ("envs/test_contract.py", "inventory")):
        words = ["-m", "pytest", str(root / "tests" / suite), "-q", "-pno:cacheprovider", "-pno:xdist", "-k", which]
        said = python(user, words, cwd=root)
        assert " passed" in said
        assert "failed" not in said
