"""The benchmark's own parts: what it measures adds up, and what it prints says whether a goal was met."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from benchmarks import breakdown, peer_rlberry, subjects, tabular
from benchmarks.naive_ucb_vi import NaiveUCBVI
from benchmarks.timing import Blocks, machine, microseconds_per_episode
from dprl.envs import RiverSwim


def console() -> tuple[Console, io.StringIO]:
    text = io.StringIO()
    return Console(file=text, width=140), text


def test_the_cheapest_block_counts() -> None:
    waits = iter([0.03, 0.002, 0.03])

    def run(episodes: int) -> None:
        end = time.process_time() + next(waits)
        while time.process_time() < end:
            pass

    took = microseconds_per_episode(run, Blocks(episodes=10, repeats=3))
    assert 200 <= took < 2500


def test_the_machine_class_is_named() -> None:
    assert machine()["vectors"] in {"AVX-512", "AVX2", "no AVX2"}


def test_the_yardstick_has_the_certified_noise() -> None:
    mdp = RiverSwim(n_states=3, horizon=4).build()
    central = subjects.UCB_VI.yardstick(NaiveUCBVI, mdp, "jdp", 1000)
    local = subjects.UCB_VI.yardstick(NaiveUCBVI, mdp, "ldp", 1000)
    assert central.settings.noise_scale == pytest.approx(6 * 4 * 10)
    assert local.settings.noise_scale == pytest.approx(6 * 4)


@pytest.mark.parametrize("subject", subjects.SUBJECTS, ids=lambda subject: subject.settings.name)
def test_every_part_is_measured(subject: subjects.Subject) -> None:
    parts = breakdown.parts(subject, RiverSwim(n_states=3, horizon=4).build(), "jdp", Blocks(50, repeats=2))
    assert set(parts) == {"plan", "roll-out", "exchange", "exact value"}
    assert all(0.0 < took < 1000.0 for took in parts.values())


def test_the_table_says_what_was_met() -> None:
    case = tabular.CASES[0].label
    screen, text = console()
    tabular.report_numpy(screen, [tabular.Row("private_ucb_vi", case, "jdp", ours=4.5, naive=600.0, tuned=250.0)])
    tabular.report_numpy(screen, [tabular.Row("private_ucb_po", case, "jdp", ours=4.5, naive=600.0, tuned=250.0)])
    assert "<= 4 missed" in text.getvalue()
    assert "<= 5 met" in text.getvalue()
    assert ">= 100 met" in text.getvalue()


def test_a_missing_peer_does_not_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def unavailable(*_: object) -> None:
        raise peer_rlberry.PeerUnavailableError("ERROR: no network")

    monkeypatch.setattr(peer_rlberry, "measure", unavailable)
    rows = [
        tabular.Row("private_ucb_vi", case.label, model, 1.0, 2.0, 2.0)
        for case in tabular.CASES
        for model in subjects.MODELS
    ]
    screen, text = console()
    assert tabular.measure_peers(screen, rows) == []
    assert text.getvalue() == "rlberry not measured: ERROR: no network\n"
