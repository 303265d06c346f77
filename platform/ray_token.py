"""Ray's authentication token: its locations, and a new token for Ray on this machine."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from dprl.platform.errors import UserError

MODE_VARIABLE, _TOKEN_VARIABLE, _FILE_VARIABLE = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
TOKEN_MODE = "token"

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
