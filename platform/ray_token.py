"""Ray's authentication token: its locations, and a new token for Ray on this machine."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from dprl.platform.errors import UserError, broken_rule

MODE_VARIABLE, _TOKEN_VARIABLE, _FILE_VARIABLE = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
TOKEN_MODE = "token"
_CONNECT_SECONDS = 10.0
_ANY_CALL = "/ray.rpc.NodeInfoGcsService/CheckAlive"

WHERE_TOKENS_ARE = (
    f"set {_TOKEN_VARIABLE}, or {_FILE_VARIABLE} to a file with it, "
    "or copy the head's ~/.ray/auth_token to this machine"
)


def user_token(place: str) -> str:
    """Return the user's token from Ray's own locations. place: the server that asks for it. Raises UserError."""
    token = os.environ.get(_TOKEN_VARIABLE, "").strip()
    if not token:
        given = os.environ.get(_FILE_VARIABLE)
        file = Path(given).expanduser() if given else Path.home() / ".ray" / "auth_token"
        with suppress(OSError, UnicodeDecodeError):
            token = file.read_text(encoding="utf-8").strip()
    if not token:
        raise UserError(f"{place} asks for a token, and none was found; {WHERE_TOKENS_ARE}")
    if not token.isascii() or not token.isprintable() or " " in token:
        raise UserError(f"{place} asks for a token, which must be one printable word; {WHERE_TOKENS_ARE}")
    return token


def provide_token() -> None:
    """Give the Ray that this process starts a token that only its own processes know.

    Ray would make a file that all can read. A user who has set RAY_AUTH_MODE to something else starts Ray without one.
    """
    if os.environ.get(MODE_VARIABLE, TOKEN_MODE).lower() == TOKEN_MODE:
        os.environ[_TOKEN_VARIABLE] = secrets.token_hex(32)


def require_reachable(address: str) -> None:
    """Raise UserError unless a Ray that accepts us listens at `address`, host:port or ray://host:port.

    Ray itself would try for minutes. A token is only sent to a server that asks for one; Ray reads RAY_AUTH_MODE, which
    is set then, when it is imported.
    """
    server = address.removeprefix("ray://")
    if ":" not in server or os.environ.get("RAY_USE_TLS", "0") != "0":
        return  # 'auto', which Ray looks up itself, and encrypted connections
    code = _answer(server, None)
    if code in ("UNAVAILABLE", "DEADLINE_EXCEEDED", "UNKNOWN"):  # nothing listens, or something other than Ray
        rule = f"must be where Ray listens ({code.lower()})"
        raise broken_rule("address", rule, address, "check it with `ray status --address ADDR`")
    if code != "UNAUTHENTICATED":
        return
    token = user_token(f"address: {address}")
    if os.environ.get(MODE_VARIABLE, TOKEN_MODE).lower() != TOKEN_MODE:
        raise broken_rule(MODE_VARIABLE, f"must be {TOKEN_MODE} for {address}", os.environ[MODE_VARIABLE], "unset it")
    if _answer(server, token) == "UNAUTHENTICATED":
        rule = "refuses the token, which must be that of the cluster"
        raise UserError(f"address: {address} {rule}; {WHERE_TOKENS_ARE}")
    os.environ[MODE_VARIABLE] = TOKEN_MODE


def _answer(server: str, token: str | None) -> str:
    """Return the status of the server's answer to a call with this token, or without one."""
    # Imported only here: a Ray on this machine needs none of it.
    import grpc  # noqa: PLC0415

    metadata = [] if token is None else [("authorization", f"Bearer {token}")]
    with grpc.insecure_channel(server, [("grpc.enable_http_proxy", 0)]) as connection:
        try:
            connection.unary_unary(_ANY_CALL)(b"", timeout=_CONNECT_SECONDS, metadata=metadata)
        except grpc.RpcError as error:
            return str(error.code().name)
    return "OK"
