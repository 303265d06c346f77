"""The JSON schema of configs: it accepts every config of the project, and refuses wrong names and types."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from dprl.platform.command_line import main
from dprl.platform.configs.config import config_files
from dprl.platform.reports.json_schema import config_schema

VALIDATOR = jsonschema.Draft202012Validator(config_schema())


def test_it_is_a_schema_and_the_command_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    schema = config_schema()  # anew: other tests may have registered classes
    VALIDATOR.check_schema(schema)
    assert main(["list", "schema"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(schema))


@pytest.mark.parametrize("path", config_files().values(), ids=lambda path: path.stem)
def test_configs_of_the_project_fit(path: Path) -> None:
    VALIDATOR.validate(yaml.safe_load(path.read_text()))


@pytest.mark.parametrize(
    "part",
    [
        {"episodes": 10},
        {"episodes": {"grid_search": [10, 20]}},
        {"grid_search": [{"episodes": 10, "env": {"name": "riverswim"}}, {"grid_search": [{"episodes": 5}]}]},
        {"algorithm": {"name": {"grid_search": ["pucb", "private_ucb_vi"]}, "bonus_scale": 0.1}},
        {"algorithm": {"name": "pucb", "label": "ours"}},
        {"privacy": {"grid_search": [{"model": "none"}, {"model": "jdp", "epsilon": {"grid_search": [1, 2.5]}}]}},
        {"noise": {"arithmetic": "exact", "entropy": "os"}, "release": True},
    ],
    ids=str,
)
def test_parts_that_fit(part: dict[str, Any]) -> None:
    VALIDATOR.validate(part)


@pytest.mark.parametrize(
    "part",
    [
        {"nam": "x"},
        {"episodes": "many"},
        {"episodes": 1.5},
        {"episodes": {"grid": [10, 20]}},
        {"episodes": {"grid_search": 10}},
        {"seeds": {"grid_search": []}},
        {"algorithm": {"name": "pucbb"}},
        {"algorithm": {"name": "pucb", "bonus": 1}},
        {"algorithm": {"name": "pucb", "bonus_scale": "big"}},
        {"env": {"name": "riverswim", "horizn": 3}},
        {"env": {"n_states": 3}},
        {"privacy": {"model": "jdp"}},
        {"privacy": {"model": "ldp", "epsilon": 1, "counter": "auto"}},
        {"privacy": {"model": "jdp", "epsilon": 1, "counter": "no_counter"}},
        {"noise": {"entropy": "dice"}},
        {"grid_search": [{"nam": "x"}]},
        {"grid_search": []},
    ],
    ids=str,
)
def test_parts_that_do_not(part: dict[str, Any]) -> None:
    assert not VALIDATOR.is_valid(part)
