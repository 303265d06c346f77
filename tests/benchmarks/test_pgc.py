"""The PGC-A3C benchmark's own parts: it times what it reports, and states whether a goal was met."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
import torch
from rich.console import Console

from benchmarks import peer_rlberry, pgc
from benchmarks.harness import Blocks, Row, command_line
from benchmarks.naive_pgc import NaivePGC
from dprl.envs import CartPoleGravity


def test_both_programs_have_the_same_gradients_on_the_same_actions() -> None:
    assert 0.0 < pgc.disagreement(4) < 1e-9


def test_the_naive_program_clips_and_adds_noise() -> None:
    program = NaivePGC(pgc.balancing(), clip=0.01, epsilon=1e12, learning_rate=2.0, dtype=torch.float64)
    before = torch.nn.utils.parameters_to_vector(program.network.parameters()).detach().clone()
    program.update(torch.full((112,), 3.0, dtype=torch.float64))
    step = before - torch.nn.utils.parameters_to_vector(program.network.parameters()).detach()
    assert float(step.abs().sum()) == pytest.approx(2.0 * 0.005, rel=1e-6)
    noisy = NaivePGC(pgc.balancing(), clip=100.0, epsilon=1.0, learning_rate=1.0, dtype=torch.float64)
    noisy.update(torch.zeros(112, dtype=torch.float64))
    moved = before - torch.nn.utils.parameters_to_vector(noisy.network.parameters()).detach()
    # The mean of 112 absolute values of Laplace noise of scale 100: s.d. 9.4, five of them.
    assert 53.0 < float(moved.abs().mean()) < 147.0


def test_the_balancing_policy_balances_and_the_untrained_one_does_not() -> None:
    task = CartPoleGravity().build()
    rows = [pgc.measure(policy, 2, task, Blocks(3, repeats=1), None) for policy in ("balancing", "untrained")]
    assert rows[0]["steps"] == 200.0
    assert rows[1]["steps"] < 60.0
    assert 0.0 < rows[0]["ours"] < 1e6


def row(policy: str, lanes: int, steps: float, ours: float, naive: float) -> Row:
    return {"policy": policy, "lanes": lanes, "steps": steps, "ours": ours, "naive": naive}


def test_the_table_says_what_was_met() -> None:
    text = io.StringIO()
    rows = [row("balancing", 8, 200.0, 9.0, 40_000.0), row("untrained", 8, 20.0, 5.0, 4_000.0)]
    pgc.report(Console(file=text, width=200), [*rows, row("balancing", 1, 200.0, 60.0, 0.0)])
    full, short, alone = [line for line in text.getvalue().splitlines() if "balancing" in line or "untrained" in line]
    assert "45.0" in full
    assert ">= 2000 met" in full
    assert ">=" not in short
    assert ">=" not in alone


def test_a_whole_run_is_printed_and_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    measure = pgc.measure
    monkeypatch.setattr(pgc, "LANES", (8,))
    monkeypatch.setattr(
        pgc,
        "measure",
        lambda policy, lanes, task, blocks, naive: measure(policy, lanes, task, Blocks(3, 1), naive and Blocks(1, 1)),
    )
    monkeypatch.setattr(sys, "argv", ["pgc", "--quick", "--no-peers", "--json", str(tmp_path / "figures.json")])
    assert command_line(pgc.run, pgc.__doc__, peer_rlberry.NO_PEERS) == 0
    written = json.loads((tmp_path / "figures.json").read_text())
    assert written["disagreement"] < 1e-9
    assert [(row["policy"], row["lanes"]) for row in written["submissions"]] == [("balancing", 8), ("untrained", 8)]
    assert all(0.0 < row["ours"] < row["naive"] for row in written["submissions"])
    assert set(written["noise"]) == {"clipped_laplace", "clipped_gaussian", "projected_random_sign", "privunit"}
    assert all(0.0 < microseconds < 1000.0 for microseconds in written["noise"].values())
