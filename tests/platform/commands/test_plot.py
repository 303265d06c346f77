"""`dprl plot`: refused input. Its figures are tested in tests/platform/reports/figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from dprl.platform.command_line import main


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--width", "0.1"], "--width: must be 1.5 to 40 inches, got '0.1'; write e.g. 5.5, 2.7 or 14cm"),
        (["--width", "wide"], "--width: must be 1.5 to 40 inches, got 'wide'"),
        (["--height", "1cm"], "--height: must be 1.5 to 40 inches, got '1cm'"),
        (["--out", "frontier.gif"], "--out: must end in .pdf, .svg or .png, got 'frontier.gif'"),
        (
            ["--out", "x.pdf", "--format", "svg"],
            "--format: must be that of --out x.pdf, got 'svg'",
        ),
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
