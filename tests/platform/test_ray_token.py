"""Ray's token: known to its user only, sent where it is required, reported in one line if missing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest

from dprl.platform.errors import UserError
from dprl.platform.ray_token import provide_token, require_reachable

TOKEN = "a-token-of-these-tests"


@pytest.fixture(autouse=True)
def user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The home of a user without a token; changes of the environment are undone afterwards."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    return tmp_path


def test_a_ray_of_ours_has_a_token_of_its_own(user: Path) -> None:
    os.environ["RAY_AUTH_TOKEN"] = TOKEN
    provide_token()
    assert len(os.environ["RAY_AUTH_TOKEN"]) == 64
    assert list(user.iterdir()) == []


def test_a_user_who_wants_no_token_gets_none() -> None:
    os.environ["RAY_AUTH_MODE"] = "disabled"
    provide_token()
    assert "RAY_AUTH_TOKEN" not in os.environ


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


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_an_address_without_ray_is_refused_at_once(scheme: str) -> None:
    address = f"{scheme}127.0.0.1:9"
    with pytest.raises(UserError, match=r"^address: must be where Ray listens \(unavailable\), got "):
        require_reachable(address)
