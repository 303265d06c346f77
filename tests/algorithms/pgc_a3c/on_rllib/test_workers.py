"""Assignment of batches, with simulated runners: refusals, and runners that take too long."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from ray.exceptions import RayTaskError

from dprl.algorithms.pgc.on_rllib import algorithm
from dprl.algorithms.pgc.on_rllib.algorithm import _Workers


class Runners:
    """A fake of Ray, RLlib's runners and their clock. Runner 1 answers in time, runner 2 never."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error, self.now, self.killed, self.ill = error, 0.0, list[str](), list[int]()
        self._worker_manager = self
        self.batches = 0

    def num_remote_env_runners(self) -> int:
        return 2

    def healthy_env_runner_ids(self) -> list[int]:
        return [runner for runner in (1, 2) if runner not in self.ill]

    def actors(self) -> dict[int, Any]:
        return {runner: SimpleNamespace(report=self.report(runner), name=f"runner {runner}") for runner in (1, 2)}

    def report(self, runner: int) -> Any:
        def remote(batch: Any, spec: Any) -> str:
            self.batches += 1
            return f"{runner}: {self.batches}"

        return SimpleNamespace(remote=remote)

    def wait(self, pending: list[str], num_returns: int, timeout: float) -> tuple[list[str], list[str]]:
        ready = [each for each in pending if each.startswith("1")]
        self.now += 1.0 if ready else timeout + 0.001
        return ready, [each for each in pending if each not in ready]

    def get(self, reference: str) -> str:
        if self.error is not None:
            raise RayTaskError("report", "a traceback with private numbers", self.error)
        return reference

    def kill(self, actor: Any, no_restart: bool) -> None:
        assert not no_restart
        self.killed.append(actor.name)

    def set_actor_state(self, runner: int, healthy: bool) -> None:
        assert not healthy
        self.ill.append(runner)

    def monotonic(self) -> float:
        return self.now

    perf_counter = monotonic


def started(monkeypatch: pytest.MonkeyPatch, error: Exception | None = None) -> tuple[Runners, _Workers]:
    runners = Runners(error)
    monkeypatch.setattr(algorithm, "ray", runners)
    monkeypatch.setattr(algorithm, "time", runners)
    group: Any = runners
    book: Any = SimpleNamespace(privatizer=SimpleNamespace(new_client=None))
    return runners, _Workers(group, book, 2, 10.0)


def batch(*slots: int) -> Any:
    return SimpleNamespace(slots=np.array(slots))


@pytest.mark.parametrize("text", ["", " \n", "batch must be new, got an old one; send another"])
def test_a_refusal_is_one_line_and_hides_where_it_was(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    _, here = started(monkeypatch, ValueError(text))
    here.send(1, batch(1, 2))
    with pytest.raises(RuntimeError) as refused:
        here.outcomes()
    assert str(refused.value) == f"runner 1 refused a batch: {text.strip() or 'ValueError'}"
    assert refused.value.__context__ is None
    assert refused.value.__cause__ is None


def test_a_runner_that_takes_too_long_is_given_up_and_its_batches_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    runners, here = started(monkeypatch)
    here.send(2, batch(1, 2))
    here.send(2, batch(3))
    here.send(1, batch(4))
    assert [str(reply) for _, reply in here.outcomes()] == ["1: 3"]
    assert runners.killed == []
    lost = here.outcomes()
    assert [(slots.tolist(), reply) for slots, reply in lost] == [([1, 2], None), ([3], None)]
    assert runners.now == pytest.approx(10.0, abs=3.0)
    assert runners.killed == ["runner 2"]
    assert list(here.free()) == [1]
    assert here.outcomes() == []


def test_others_who_answer_do_not_hide_who_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    runners, here = started(monkeypatch)
    here.send(2, batch(1))
    lost: list[list[int]] = []
    for slot in range(2, 14):
        here.send(1, batch(slot))
        lost += [slots.tolist() for slots, reply in here.outcomes() if reply is None]
    assert lost == [[1]]
    assert runners.killed == ["runner 2"]
