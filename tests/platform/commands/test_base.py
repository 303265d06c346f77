"""Numbers, JSON and exit codes that commands share."""

from __future__ import annotations

import json
import math
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
