"""Numbers, JSON and exit codes that commands share, refused words of dprl plot, and dprl new."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dprl.platform.command_line import app, main
from dprl.platform.commands.base import exit_code, json_text


@pytest.mark.parametrize(("text", "value"), [("1", 1), ("65535", 65535), ("4e2", 400), ("7.0", 7)])
def test_whole_numbers_may_be_written_as_floats(text: str, value: int) -> None:
    _, bound, _ = app().parse_args(["ui", "--port", text])
    assert (bound.kwargs["port"], type(bound.kwargs["port"])) == (value, int)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        *((text, f'Invalid value "{text}" for --port. Must be') for text in ("0", "65536")),
        *((text, f'Invalid value for --port: unable to convert "{text}" into int') for text in ("1.5", "inf")),
        ("many", "Invalid value for --port: "),
    ],
)
def test_other_numbers_are_refused(text: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ui", "--port", text]) == 2
    assert capsys.readouterr().err.startswith(f"dprl: {told}")


def test_json_is_strict() -> None:
    data: dict[Any, Any] = {1: math.inf, "low": -math.inf, "none": math.nan, "list": (np.float64(0.5), np.int64(2))}
    data |= {"numpy": np.float64(math.inf), "flag": np.True_, "text": "a", "nothing": None}
    assert json.loads(json_text(data)) == {
        "1": "inf",
        "low": "-inf",
        "none": None,
        "list": [0.5, 2],
        "numpy": "inf",
        "flag": True,
        "text": "a",
        "nothing": None,
    }


def test_the_exit_code_tells_of_failed_cells_and_of_files_that_are_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert [exit_code([]), exit_code(["a"]), exit_code([], ["b"])] == [0, 1, 1]
    assert capsys.readouterr().err == "dprl: failed: a\ndprl: not written: b\n"


# `dprl plot`: refused input. Its figures are tested in tests/platform/reports/figures.


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--width", "wide"], 'Invalid value for --width: unable to convert "wide" into float'),
        (["--out", "frontier.gif"], "--out: must end in .pdf, .svg or .png, got 'frontier.gif'"),
        ([], "SWEEP: must be a sweep in"),
    ],
)
def test_bad_words_are_refused_in_one_line(
    words: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plot", "none", "frontier", "--storage", str(tmp_path), *words]) == 2
    shown = capsys.readouterr().err
    assert told in shown
    assert shown.count("\n") == 1


# `dprl new`: each kind of part is certified as written, and no existing name or file is replaced.


@pytest.mark.parametrize("kind", ["algorithm", "env", "game"])
def test_a_new_part_is_certified_as_it_is_written(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new", kind, f"my_{kind}"]) == 0
    line = capsys.readouterr().out.splitlines()[1].strip()
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"my_{kind}.py", f"my_{kind}.yaml"]
    assert f"My{kind.capitalize()}" in (tmp_path / f"my_{kind}.py").read_text()
    # Running one would compile for half a minute; tests/docs/test_extending.py runs the originals.
    words = line.replace("dprl run", f"{sys.executable} -P -m dprl.platform.command_line certify")
    done = subprocess.run(["bash", "-c", words], env=dict(os.environ), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "HOLDS" in done.stdout


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("my-ucb", "must be one word of lower-case letters, digits and _"),
        ("class", "must be one word"),
        ("pucb", "must be new"),
        ("there", "must not be that of a file here (there.yaml)"),
        ("json", "must not be that of an installed Python module"),
    ],
)
def test_a_name_that_is_taken_or_none_is_refused(
    name: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.yaml").touch()
    assert main(["new", "algorithm", name]) == 2
    assert told in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["there.yaml"]
