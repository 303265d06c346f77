"""Ray's token: readable by its user only, sent where it is required, reported in one line if missing."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest

from dprl.platform.errors import UserError
from dprl.platform.ray_token import provide_token
from dprl.platform.sweeps.cluster_checks import require_reachable

TOKEN = "a-token-of-these-tests"


@pytest.fixture(autouse=True)
def user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The home of a user without a token; changes of the environment are undone afterwards."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    return tmp_path


def test_a_new_token_is_for_its_user_alone(user: Path) -> None:
    provide_token()
    file = user / ".ray" / "auth_token"
    first = file.read_text()
    assert len(first) == 64
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    provide_token()
    assert file.read_text() == first
    assert [each.name for each in file.parent.iterdir()] == ["auth_token"]


def test_a_token_that_others_can_read_is_closed_to_them(user: Path) -> None:
    file = user / "kept"
    file.write_text(TOKEN)
    file.chmod(0o644)
    os.environ["RAY_AUTH_TOKEN_PATH"] = str(file)
    provide_token()
    assert file.read_text() == TOKEN
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_who_starts_second_takes_the_first_one_s_token(user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, original = user / ".ray" / "auth_token", Path.hardlink_to

    def other_first(self: Path, target: Path) -> None:
        file.write_text(TOKEN)
        original(self, target)

    monkeypatch.setattr(Path, "hardlink_to", other_first)
    provide_token()
    assert file.read_text() == TOKEN


def test_without_a_place_for_it_the_token_lasts_as_long_as_the_process(user: Path) -> None:
    (user / ".ray").write_text("a file")
    provide_token()
    assert len(os.environ["RAY_AUTH_TOKEN"]) == 64


def test_a_user_who_wants_no_token_gets_none(user: Path) -> None:
    os.environ["RAY_AUTH_MODE"] = "disabled"
    provide_token()
    assert not (user / ".ray").exists()


class _Door(grpc.ServerInterceptor):
    """A server that refuses clients without the token and records the tokens shown."""

    def __init__(self, token: str | None) -> None:
        self.token = token
        self.shown: list[str] = []

    def intercept_service(self, continuation: Callable[[object], object], details: grpc.HandlerCallDetails) -> object:
        given = dict(details.invocation_metadata).get("authorization", "")
        self.shown.append(given)
        if self.token is None or given == f"Bearer {self.token}":
            return continuation(details)

        def refuse(_: object, context: grpc.ServicerContext) -> None:
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "no token")

        return grpc.unary_unary_rpc_method_handler(refuse)


@contextmanager
def serving(token: str | None) -> Iterator[tuple[str, _Door]]:
    door = _Door(token)
    server = grpc.server(ThreadPoolExecutor(1), interceptors=[door])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}", door
    finally:
        server.stop(None)


@pytest.mark.parametrize(
    ("mine", "said"),
    [
        (None, "asks for a token, and none was found; set RAY_AUTH_TOKEN"),
        ("another", "refuses the token, which must be that of the cluster"),
    ],
)
@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_an_address_without_its_token_says_so(mine: str | None, said: str, scheme: str) -> None:
    if mine is not None:
        os.environ["RAY_AUTH_TOKEN"] = mine
    with serving(TOKEN) as (server, _), pytest.raises(UserError, match=f"^address: {scheme}{server} {said}"):
        require_reachable(f"{scheme}{server}")


def test_with_the_token_ray_is_reported_to_use_it() -> None:
    os.environ["RAY_AUTH_TOKEN"] = TOKEN
    with serving(TOKEN) as (server, _):
        require_reachable(server)
    assert os.environ["RAY_AUTH_MODE"] == "token"


def test_authentication_that_is_switched_off_here_is_named() -> None:
    os.environ |= {"RAY_AUTH_TOKEN": TOKEN, "RAY_AUTH_MODE": "disabled"}
    with serving(TOKEN) as (server, _), pytest.raises(UserError, match=r"RAY_AUTH_MODE: must be token .* unset it"):
        require_reachable(server)


def test_who_asks_for_no_token_is_shown_none() -> None:
    os.environ["RAY_AUTH_TOKEN"] = TOKEN
    with serving(None) as (server, door):
        require_reachable(server)
    assert door.shown == [""]
    assert "RAY_AUTH_MODE" not in os.environ
