"""Addresses, tokens and servers that are not Ray's: one line each, without a cluster."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from dprl.platform.command_line import main
from dprl.platform.errors import UserError
from dprl.platform.submission.jobs import Dashboard

TOKEN = "a-secret-word"
VERSION = {"version": "4", "ray_version": "2.60.0"}


class Stub:
    """A fake server: its answers, and the requests that it received."""

    def __init__(self, answers: Mapping[str, tuple[int, object]], token: str | None = None) -> None:
        self.answers = answers
        self.token = token
        self.asked: list[tuple[str, str | None]] = []
        self.location: str | None = None

    def answer(self, path: str, authorization: str | None) -> tuple[int, bytes]:
        self.asked.append((path, authorization))
        if self.token is not None and authorization != f"Bearer {self.token}":
            return (401 if authorization is None else 403), b"no"
        status, body = self.answers.get(path.partition("?")[0], (404, "none"))
        return status, body if isinstance(body, bytes) else json.dumps(body).encode()


@contextmanager
def serving(stub: Stub) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = stub.answer(self.path, self.headers.get("Authorization"))
            self.send_response(status)
            if stub.location is not None:
                self.send_header("Location", stub.location)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(autouse=True)
def _no_token(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    "address",
    [
        *("ray://head:10001", "head:8265", "head", "http://", "http://head:port"),
        *("http://head:8265/#/jobs", "https://head/ray"),
    ],
)
def test_an_address_of_another_kind(address: str) -> None:
    with pytest.raises(UserError, match="--address: must be the address of Ray's dashboard") as told:
        Dashboard(address)
    assert str(told.value).endswith("; write e.g. --address http://HOST:8265")


def test_a_password_in_the_address_is_refused_and_not_shown() -> None:
    with pytest.raises(UserError, match=r"^--address: must be .*, without a password, got") as told:
        Dashboard("http://me:hidden@head:8265")
    assert "hidden" not in str(told.value)


def test_nobody_listens(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["submit", "smoke", "--storage", "/shared", "--address", "http://127.0.0.1:9"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("dprl: --address: must be Ray's dashboard ([Errno 111] Connection refused), got 'http://127")
    assert told.count("\n") == 1


@pytest.mark.parametrize("answer", [(200, b"<html>"), (200, {"version": 1}), (404, "none"), (500, b"")])
def test_another_server(answer: tuple[int, object]) -> None:
    with (
        serving(Stub({"/api/version": answer})) as url,
        pytest.raises(UserError, match="must be Ray's dashboard") as told,
    ):
        Dashboard(url)
    assert "\n" not in str(told.value)


def test_who_asks_for_no_token_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Job and token go to the given address, whatever Ray's variables say."""
    monkeypatch.setenv("RAY_AUTH_TOKEN", TOKEN)
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_ADDRESS", "http://192.0.2.9:8265")
    monkeypatch.setenv("RAY_API_SERVER_ADDRESS", "http://192.0.2.9:8265")
    stub = Stub({"/api/version": (200, VERSION)})
    with serving(stub) as url:
        Dashboard(url)
    assert {token for _, token in stub.asked} == {None}


@pytest.mark.parametrize("place", ["variable", "file", "home"])
def test_the_token_is_found_where_ray_looks(place: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if place == "variable":
        monkeypatch.setenv("RAY_AUTH_TOKEN", TOKEN)
    elif place == "file":
        (tmp_path / "kept").write_text(f"{TOKEN}\n")
        monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "kept"))
    else:
        (tmp_path / ".ray").mkdir()
        (tmp_path / ".ray" / "auth_token").write_text(TOKEN)
    stub = Stub({"/api/version": (200, VERSION)}, TOKEN)
    with serving(stub) as url:
        Dashboard(url)
    assert stub.asked[-1] == ("/api/version", f"Bearer {TOKEN}")


@pytest.mark.parametrize(
    ("mine", "said"), [(None, "none was found"), ("another", "refuses the token"), ("a b", "word")]
)
def test_a_missing_or_wrong_token(mine: str | None, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if mine is not None:
        monkeypatch.setenv("RAY_AUTH_TOKEN", mine)
    with serving(Stub({"/api/version": (200, VERSION)}, TOKEN)) as url, pytest.raises(UserError, match=said) as told:
        Dashboard(url)
    assert "set RAY_AUTH_TOKEN, or RAY_AUTH_TOKEN_PATH" in str(told.value)
    assert mine is None or mine not in str(told.value)


def test_the_token_is_not_taken_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", TOKEN)
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    elsewhere = Stub({"/api/version": (200, VERSION)})
    with serving(elsewhere) as target:
        leading = Stub({"/api/version": (302, b"")})
        leading.location = f"{target}/api/version"
        with serving(leading) as url:
            Dashboard(url)
    assert {token for _, token in elsewhere.asked} == {None}


def test_only_living_nodes_count() -> None:
    rows = [{"node_ip": "10.0.0.1", "state": "ALIVE"}, {"node_ip": "10.0.0.2", "state": "DEAD"}]
    nodes = {"result": True, "data": {"result": {"result": rows}}}
    with serving(Stub({"/api/version": (200, VERSION), "/api/v0/nodes": (200, nodes)})) as url:
        assert Dashboard(url).alive_nodes() == ["10.0.0.1"]


@pytest.mark.parametrize("nodes", [(418, b"short  and\nstout"), (200, {"data": {}})])
def test_a_head_that_does_not_list_its_nodes(nodes: tuple[int, object]) -> None:
    stub = Stub({"/api/version": (200, VERSION), "/api/v0/nodes": nodes})
    with serving(stub) as url, pytest.raises(UserError, match=r"^--address: .* must list its nodes .*; try again$"):
        Dashboard(url).alive_nodes()


def test_a_bad_config_is_reported_before_anything_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    stub = Stub({})
    with serving(stub) as url:
        assert main(["submit", "smoke", "--set", "episodes=0", "--address", url]) == 2
    assert "episodes: must be at least 2" in capsys.readouterr().err
    assert stub.asked == []


def test_a_cluster_of_two_nodes_needs_a_server(capsys: pytest.CaptureFixture[str]) -> None:
    nodes = {"data": {"result": {"result": [{"node_ip": "192.0.2.7", "state": "ALIVE"}] * 2}}}
    with serving(Stub({"/api/version": (200, VERSION), "/api/v0/nodes": (200, nodes)})) as url:
        words = ["submit", "smoke", "--tracking-uri", "", "--address", url, "--storage", "/shared"]
        assert main(words) == 2
    assert capsys.readouterr().err.startswith("dprl: tracking-uri: must be a server on a cluster of 2 nodes")
