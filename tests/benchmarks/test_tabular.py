"""The benchmark's own parts: its measurements add up, and it states whether a goal was met."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from benchmarks import peer_rlberry, subjects, tabular
from benchmarks.harness import (
    Blocks,
    Row,
    machine,
    microseconds_per_episode,
    race,
    show,
    verdict,
)
from benchmarks.naive_ucb_vi import NaiveUCBVI
from dprl.envs import Garnet, RiverSwim


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
    parts = tabular.parts(subject, RiverSwim(n_states=3, horizon=4).build(), "jdp", Blocks(50, repeats=2))
    assert set(parts) == {"plan", "roll-out", "exchange", "exact value"}
    assert all(0.0 < took < 1000.0 for took in parts.values())


def test_large_tables_are_compared() -> None:
    found = tabular.large_tables(Garnet(n_states=12, n_actions=2, branching=1, horizon=3), Blocks(50, repeats=2))
    assert found["ratio"] == found["all"] / found["ours"] > 0.0


def row(algorithm: str, case: str, model: str, ours: float, naive: float) -> Row:
    return {"algorithm": algorithm, "case": case, "model": model, "ours": ours, "naive": naive, "tuned": naive}


def test_ours_is_timed_before_and_after_the_others() -> None:
    order: list[str] = []
    others = {"theirs": (lambda n: order.append(f"theirs {n}"), Blocks(3, 1))}
    times = race(lambda n: order.append(f"ours {n}"), Blocks(2, 1), others)
    assert order == ["ours 2", "theirs 3", "ours 2"]
    assert set(times) == {"ours", "theirs"}


def test_a_table_has_a_line_per_row_and_a_column_per_heading() -> None:
    screen, text = console()
    rows = [{"name": "a", "value": 1.26, "goal": verdict(1.0, 2.0)}, {"name": "b", "value": 30.0, "goal": ""}]
    show(screen, "Title", rows, "what {name} | us {value:.1f} | goal {goal}")
    lines = text.getvalue().splitlines()
    assert "what" in lines[2]
    assert [cell.strip() for cell in lines[4].split("│")[1:-1]] == ["a", "1.3", ">= 2 missed"]
    assert lines[4].index("1.3") == lines[5].index("30.0") + 1  # numbers are on the right
    assert verdict(1.0, None) == ""
    assert "met" in verdict(1.0, 2.0, at_most=True)


def test_the_table_says_what_was_met() -> None:
    case = tabular.CASES[0].label
    screen, text = console()
    rows = [row(name, case, "jdp", ours=4.5, naive=600.0) for name in ("private_ucb_vi", "private_ucb_po")]
    tabular.report_numpy(screen, rows)
    assert ">= 100 met" in text.getvalue()


def test_plans_on_a_schedule_are_compared_with_a_plan_before_every_episode() -> None:
    rows = tabular.lazy_planning(60, 1, RiverSwim(n_states=3, horizon=4).build())
    assert [(each["model"], each["growth"]) for each in rows[:3]] == [("jdp", growth) for growth in tabular.GROWTHS]
    assert [bool(each["faster"]) for each in rows] == [False, True, *[False] * 7]
    assert all(each["regret"] > 0.0 and each["microseconds"] > 0.0 for each in rows)
    assert all(each["ratio"] == 1.0 and each["loss"] == 0.0 for each in rows[::3])


def test_a_missing_peer_does_not_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def unavailable(*_: object) -> None:
        raise peer_rlberry.PeerUnavailableError("ERROR: no network")

    monkeypatch.setattr(peer_rlberry, "measure", unavailable)
    rows = [row("private_ucb_vi", case.label, model, 1.0, 2.0) for case in tabular.CASES for model in subjects.MODELS]
    screen, text = console()
    assert tabular.measure_peers(screen, rows) == []
    assert text.getvalue() == "rlberry not measured: ERROR: no network\n"


def test_a_peer_is_compared_with_ours_of_the_same_mdp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_rlberry, "measure", lambda *_: ("rlberry", 900.0))
    ours = {"none": 2.0, "jdp": 5.0, "ldp": 4.0}
    rows = [row("private_ucb_vi", case.label, model, ours[model], 2.0) for case in tabular.CASES for model in ours]
    screen, text = console()
    peers = tabular.measure_peers(screen, rows)
    assert [(peer["name"], peer["over_central"]) for peer in peers] == [("rlberry", 180.0)] * 2
    assert ">= 150 met" in text.getvalue()
