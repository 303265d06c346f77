"""`dprl plot`: refused input. Its figures are tested in tests/platform/reports/figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from dprl.platform.command_line import main


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--width", "wide"], 'Invalid value for --width: unable to convert "wide" into float.'),
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
