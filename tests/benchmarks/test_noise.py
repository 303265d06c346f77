"""The noise benchmark: it times what it reports."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import noise
from benchmarks.harness import command_line
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.randomness.streams import Streams


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "SIZES", (96,))
    monkeypatch.setattr(noise, "MECHANISMS", noise.MECHANISMS[:1])
    monkeypatch.setattr(noise, "_QUICK_DRAWS_A_BLOCK", 4096)


def test_each_filling_takes_the_next_draws() -> None:
    once, often = np.empty(96), np.empty(32)
    law = Laplace(3.0).noise(Streams(0, "benchmark").key("user_noise"))
    noise.draw_often(1, once, law)
    noise.draw_often(3, often, law)
    assert np.array_equal(often, once[64:])


def test_nanoseconds_are_per_number() -> None:
    calls: list[int] = []
    noise.nanoseconds(calls.append, size=100, draws=1000)
    assert calls[0] == 1
    assert set(calls[1:]) == {10}


@pytest.mark.usefixtures("small")
def test_the_command_measures_both_generators_and_writes_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "argv", ["noise", "--quick", "--json", str(tmp_path / "noise.json")])
    assert command_line(noise.run, noise.__doc__) == 0
    printed = capsys.readouterr().out
    assert "ChaCha20" in printed
    rows = json.loads((tmp_path / "noise.json").read_text())["rows"]
    assert {row["entropy"] for row in rows} == {"seed", "os"}
    assert all(row["size"] == 96 and 0.0 < row["ours"] < 1e4 and row["numpy"] > 0.0 for row in rows)
    assert all(row["ratio"] == row["numpy"] / row["ours"] for row in rows)
