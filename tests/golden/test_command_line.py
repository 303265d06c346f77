"""Help texts, listed parts and configs written out in full are those of the files beside this one.

`DPRL_WRITE_GOLDEN=1 pytest tests/golden` rewrites the files: their diff then shows the changes that a user sees.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from dprl.platform.command_line import COMMANDS, main
from dprl.platform.configs.config import config_files, load_cells
from tests.privacy.conftest import KINDS

FOLDER = Path(__file__).parent
WRITES = os.environ.get("DPRL_WRITE_GOLDEN") == "1"
COLUMNS = 100


def check(file: Path, text: str) -> None:
    if WRITES:
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    assert text == file.read_text()


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_is_unchanged(command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    assert main([*command.split(), "--help"]) == 0
    check(FOLDER / "help" / f"{command or 'dprl'}.txt", capsys.readouterr().out)


def test_the_list_is_unchanged(capsys: pytest.CaptureFixture[str]) -> None:
    """Names, keys, types and defaults; the descriptions are docstrings, which may be put better."""
    assert main(["list", "--json"]) == 0
    kinds = json.loads(capsys.readouterr().out)
    rows = {kind: [{**row, "description": ""} for row in found] for kind, found in kinds.items()}
    check(FOLDER / "list.json", lines_of(rows))


def test_configs_have_the_same_keys_and_defaults() -> None:
    """A cell's digest, MLflow parameters and experiment.yaml are made from its complete form."""
    found: dict[str, Any] = {name: cells_of(name) for name in sorted(config_files())}
    settings: dict[str, tuple[Any, Any]] = {**KINDS}
    found["counts"] = [
        {"kind": kind, "privacy": {"model": privacy.model, **dataclasses.asdict(privacy)}, **dataclasses.asdict(noise)}
        for kind, (privacy, noise) in settings.items()
    ]
    check(FOLDER / "configs.json", lines_of(found))


def cells_of(name: str) -> list[dict[str, Any]]:
    """Return a config's first cell in full, and how the first of each algorithm, environment and trust model differs.

    The last row has the number of cells, and a digest of all.
    """
    cells = [cell.as_mapping() for cell in load_cells(config_files()[name])]
    first = cells[0]
    names = (("algorithm", "name"), ("env", "name"), ("privacy", "model"))
    shown = {tuple(each[section][key] for section, key in names): each for each in reversed(cells[1:])}
    others = [each for each in cells[1:] if any(each is one for one in shown.values())]
    digest = hashlib.sha256(json.dumps(cells).encode()).hexdigest()
    differing = [{key: each[key] for key in each if each[key] != first.get(key)} for each in others]
    return [first, *differing, {"cells": len(cells), "sha256": digest}]


def lines_of(tables: dict[str, list[dict[str, Any]]]) -> str:
    """Return JSON with a line for each row."""
    texts = [f'"{name}": [\n' + ",\n".join(map(json.dumps, rows)) + "\n]" for name, rows in tables.items()]
    return "{" + ",\n".join(texts) + "}\n"
