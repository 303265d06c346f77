"""`dprl new`: each kind of part is certified as written, and no existing name or file is replaced."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dprl.platform.command_line import main


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
