"""The harness measures what it says, and a missing peer does not end the run."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from benchmarks import peer_rlberry, subjects, tabular
from benchmarks.harness import Blocks, Row, microseconds_per_episode, race, show
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


def test_the_yardstick_has_the_certified_noise() -> None:
    mdp = RiverSwim(n_states=3, horizon=4).build()
    central = subjects.UCB_VI.yardstick(mdp, "jdp", 1000)
    local = subjects.UCB_VI.yardstick(mdp, "ldp", 1000)
    assert central.settings.noise_scale == pytest.approx(6 * 4 * 10)
    assert local.settings.noise_scale == pytest.approx(6 * 4)


def test_ours_is_timed_before_and_after_the_others() -> None:
    order: list[str] = []
    others = {"theirs": (lambda n: order.append(f"theirs {n}"), Blocks(3, 1))}
    times = race(lambda n: order.append(f"ours {n}"), Blocks(2, 1), others)
    assert order == ["ours 2", "theirs 3", "ours 2"]
    assert set(times) == {"ours", "theirs"}


def test_a_table_has_a_line_per_row_and_a_column_per_heading() -> None:
    screen, text = console()
    show(screen, "Title", [{"name": "a", "value": 1.26}, {"name": "b", "value": 30.0}], "what {name} | us {value:.1f}")
    lines = text.getvalue().splitlines()
    assert "what" in lines[2]
    assert [cell.strip() for cell in lines[4].split("│")[1:-1]] == ["a", "1.3"]
    assert lines[4].index("1.3") == lines[5].index("30.0") + 1  # numbers are on the right


def rows(**ours: float) -> list[Row]:
    return [
        {"algorithm": "private_ucb_vi", "case": case.label, "model": model, "ours": ours[model]}
        for case in tabular.CASES
        for model in ours
    ]


def test_a_missing_peer_does_not_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def unavailable(*_: object) -> None:
        raise peer_rlberry.PeerUnavailableError("ERROR: no network")

    monkeypatch.setattr(peer_rlberry, "measure", unavailable)
    screen, text = console()
    assert tabular.measure_peers(screen, rows(none=1.0, jdp=1.0)) == []
    assert text.getvalue() == "rlberry not measured: ERROR: no network\n"


def test_a_peer_is_compared_with_ours_of_the_same_mdp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_rlberry, "measure", lambda *_: ("rlberry", 900.0))
    peers = tabular.measure_peers(console()[0], rows(none=2.0, jdp=5.0))
    assert [(peer["name"], peer["over_central"]) for peer in peers] == [("rlberry", 180.0)] * 2
