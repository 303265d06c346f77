"""A job is followed through failures of its head, but not forever if nothing answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from dprl.platform.command_line import main
from dprl.platform.errors import UserError
from dprl.platform.submission import jobs
from dprl.platform.submission.dashboard import Dashboard, Unreachable
from dprl.platform.submission.jobs import JobEnd, follow_job, stop_job
from tests.platform.submission.test_dashboard import VERSION, Stub, serving

RUNNING, DONE = {"status": "RUNNING"}, {"status": "SUCCEEDED"}
SILENT = None
"""In place of a text: the connection never sends again."""


class Client:
    """A client whose connections each yield pieces of a log and then end, or never send again."""

    def __init__(self, *connections: list[str | None]) -> None:
        self.connections = list(connections)

    async def tail_job_logs(self, job_id: str) -> AsyncIterator[str]:
        for text in self.connections.pop(0):
            if text is SILENT:
                await asyncio.Event().wait()
            else:
                yield text


def answering(*answers: dict[str, Any] | None) -> Any:
    """Return a dashboard with these answers (None: no answer); the last one repeats."""
    left = list(answers)

    def job(job_id: str) -> dict[str, Any]:
        answer = left.pop(0) if len(left) > 1 else left[0]
        if answer is None:
            raise Unreachable("HTTP 503")
        return answer

    return SimpleNamespace(url="http://192.0.2.1:8265", headers={}, job=job)


@pytest.fixture
def following(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[JobEnd, list[str]]]:
    """Return a fast follower of a job, which returns the job's end and the lines shown."""
    for name, seconds in (("_POLL_SECONDS", 0.0), ("_CHECK_SECONDS", 0.05), ("_PATIENCE_SECONDS", 0.3)):
        monkeypatch.setattr(jobs, name, seconds)

    def follow(dashboard: Any, client: Client) -> tuple[JobEnd, list[str]]:
        monkeypatch.setattr(jobs, "_client", lambda _: client)
        lines: list[str] = []
        return follow_job(dashboard, "a-job", lines.append), lines

    return follow


def test_a_head_that_is_away_for_a_while_is_waited_for(following: Callable[..., tuple[JobEnd, list[str]]]) -> None:
    end, lines = following(
        answering(RUNNING, None, None, RUNNING, DONE), Client(["one\ntw"], ["one\n"], ["one\n"], ["one\ntwo\nthree"])
    )
    assert end == JobEnd("SUCCEEDED", 0, "")
    assert lines == ["one", "two", "three"]


def test_a_head_that_vanishes_is_not_waited_for_without_end(
    following: Callable[..., tuple[JobEnd, list[str]]],
) -> None:
    begin = time.monotonic()
    with pytest.raises(Unreachable, match="HTTP 503"):
        following(answering(RUNNING, None), Client(["one\n", SILENT]))
    assert time.monotonic() - begin < 20


def test_a_connection_that_outlived_its_head_is_made_anew(
    following: Callable[..., tuple[JobEnd, list[str]]],
) -> None:
    answers = answering(RUNNING, None, RUNNING, RUNNING, DONE)
    end, lines = following(answers, Client(["one\n", SILENT], ["one\ntwo\n"]))
    assert (end.exit_code, lines) == (0, ["one", "two"])


def test_a_connection_that_hides_the_end_is_made_anew(following: Callable[..., tuple[JobEnd, list[str]]]) -> None:
    end, lines = following(answering(RUNNING, DONE), Client(["one\n", SILENT], ["one\ntwo\n"]))
    assert (end.exit_code, lines) == (0, ["one", "two"])


def test_a_log_that_cannot_be_read_hides_no_end(following: Callable[..., tuple[JobEnd, list[str]]]) -> None:
    end, lines = following(answering(RUNNING, DONE), Client([SILENT], [SILENT]))
    assert (end.exit_code, lines) == (0, [])


@pytest.mark.parametrize("status", [500, 502, 503])
def test_an_error_of_the_head_is_no_end_of_the_job(
    status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(jobs, "_POLL_SECONDS", 0.0)
    monkeypatch.setattr(jobs, "_PATIENCE_SECONDS", 0.1)
    monkeypatch.setattr(jobs, "_client", lambda _: Client(*([[]] * 1000)))
    with serving(Stub({"/api/version": (200, VERSION), "/api/jobs/a-job": (status, "no")})) as url:
        with pytest.raises(Unreachable, match=f"HTTP {status}"):
            Dashboard(url).job("a-job")
        with pytest.raises(UserError, match=rf"--stop: {url} must stop a-job \(HTTP {status}\); try again"):
            stop_job(Dashboard(url), "a-job")
        assert main(["submit", "--follow", "a-job", "--address", url]) == 1
    again = f"follow it again with `dprl submit --follow a-job --address {url}`"
    assert capsys.readouterr().err == f"dprl: {url} no longer answers (HTTP {status}); the job may still run: {again}\n"
