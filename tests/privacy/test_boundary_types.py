"""The privacy boundary is a type: the type checker rejects every marked leak, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CASES = Path(__file__).parent / "typing_cases" / "leaks.py"


@pytest.mark.slow
def test_the_type_checker_rejects_each_leak(root: Path, tmp_path: Path) -> None:
    rooms = tmp_path / "typing" / "dprl"
    rooms.mkdir(parents=True)
    for room in ("privacy", "envs", "algorithms"):
        (rooms / room).symlink_to(root / room)
    shown = subprocess.run(
        [
            sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--ignore-missing-imports",
            "--explicit-package-bases", "--namespace-packages", "--cache-dir", str(tmp_path / "cache"), str(CASES),
        ],
        cwd=tmp_path,
        env={"MYPYPATH": str(tmp_path / "typing"), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    expected = {number for number, line in enumerate(CASES.read_text().splitlines(), start=1) if "# LEAK" in line}
    mine = [line for line in shown.stdout.splitlines() if "leaks.py:" in line and ": error:" in line]
    found = {int(line.split("leaks.py:")[1].split(":")[0]) for line in mine}
    assert found == expected, shown.stdout + shown.stderr
    assert all("[arg-type]" in line for line in mine)
