"""A job is followed through failures of its head, but not forever if nothing answers."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from ray.job_submission import JobStatus

from dprl.platform.submission import jobs
from dprl.platform.submission.jobs import follow_job

RUNNING, DONE, AWAY = JobStatus.RUNNING, JobStatus.SUCCEEDED, None


class FakeDashboard:
    """A dashboard with these answers, a status and a log (None: no answer); the last one repeats."""

    url = "http://192.0.2.1:8265"

    def __init__(self, *answers: tuple[JobStatus | None, str | None]) -> None:
        self.answers = list(answers)

    def get_job_info(self, job_id: str) -> Any:
        status, self.log = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if status is None:
            raise RuntimeError("Request failed with status code 503")
        return SimpleNamespace(status=status, message="", driver_exit_code=None)

    def get_job_logs(self, job_id: str) -> str:
        if self.log is None:
            raise RuntimeError("the node is lost")
        return self.log


def followed(*answers: tuple[JobStatus | None, str | None]) -> tuple[Any, Sequence[str]]:
    lines: list[str] = []
    return follow_job(FakeDashboard(*answers), "a-job", lines.append), lines  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "_POLL_SECONDS", 0.0)
    monkeypatch.setattr(jobs, "_PATIENCE_SECONDS", 0.2)


def test_a_head_that_is_away_for_a_while_is_waited_for() -> None:
    ray = "2026-01-01 00:00:00,000\tINFO job.py:1 -- Runtime env is set up.\n"
    texts = [(RUNNING, ""), (RUNNING, f"{ray}one\ntw"), (AWAY, None), (RUNNING, None), (RUNNING, f"{ray}one\ntwo\n")]
    end, lines = followed(*texts, (DONE, f"{ray}one\ntwo\nthree"))
    assert end.status == DONE
    assert lines == ["one", "two", "three"]


def test_a_head_that_vanishes_is_not_waited_for_without_end() -> None:
    with pytest.raises(ConnectionError, match="503"):
        followed((RUNNING, "one\n"), (RUNNING, "one\n"), (AWAY, None))


def test_a_log_that_cannot_be_read_hides_no_end() -> None:
    end, lines = followed((RUNNING, "one\n"), (RUNNING, "one\n"), (DONE, None))
    assert (end.status, lines) == (DONE, ["one"])
