"""Ray's authentication token: its locations, and a new token for Ray on this machine."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from dprl.platform.errors import UserError

MODE_VARIABLE, _TOKEN_VARIABLE, _FILE_VARIABLE = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
TOKEN_MODE = "token"
_DEFAULT_FILE = Path(".ray") / "auth_token"
_OTHERS = 0o077

WHERE_TOKENS_ARE = (
    f"set {_TOKEN_VARIABLE}, or {_FILE_VARIABLE} to a file with it, "
    "or copy the head's ~/.ray/auth_token to this machine"
)


def user_token(place: str) -> str:
    """Return the user's token from Ray's own locations. place: the server that asks for it. Raises UserError."""
    token = os.environ.get(_TOKEN_VARIABLE, "").strip()
    if not token:
        with suppress(OSError, UnicodeDecodeError):
            token = _token_file().read_text(encoding="utf-8").strip()
    if not token:
        raise UserError(f"{place} asks for a token, and none was found; {WHERE_TOKENS_ARE}")
    if not token.isascii() or not token.isprintable() or " " in token:
        raise UserError(f"{place} asks for a token, which must be one printable word; {WHERE_TOKENS_ARE}")
    return token


def provide_token() -> None:
    """Create a token that only its user can read before Ray starts on this machine; Ray's own file is readable by all.

    A user who has set RAY_AUTH_MODE to something else starts Ray without one. If no file can be written, the token
    lasts as long as this process.
    """
    if os.environ.get(MODE_VARIABLE, TOKEN_MODE).lower() != TOKEN_MODE or os.environ.get(_TOKEN_VARIABLE):
        return
    file = _token_file()
    try:
        _provide_file(file)
    except OSError:
        os.environ[_TOKEN_VARIABLE] = secrets.token_hex(32)


def _token_file() -> Path:
    given = os.environ.get(_FILE_VARIABLE)
    return Path(given).expanduser() if given else Path.home() / _DEFAULT_FILE


def _provide_file(file: Path) -> None:
    """Create the token file if there is none, and make it unreadable for others. Raises OSError."""
    if file.exists():
        if file.stat().st_uid == os.geteuid() and file.stat().st_mode & _OTHERS:
            file.chmod(file.stat().st_mode & ~_OTHERS)
        return
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    whole = file.with_name(f".{file.name}.{secrets.token_hex(4)}.tmp")
    try:
        with os.fdopen(os.open(whole, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as text:
            text.write(secrets.token_hex(32))
        # Not by a rename, so that of two processes that start Ray the second uses the first one's token.
        with suppress(FileExistsError):
            file.hardlink_to(whole)
    finally:
        whole.unlink(missing_ok=True)
