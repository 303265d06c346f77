"""What a user can get wrong, said in one line, and the nearest right name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

EXIT_DONE = 0
EXIT_SOME_FAILED = 1
EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130

_LONGEST_VALUE = 60


class UserError(Exception):
    """Bad input: one line that names place, rule, value and remedy; the command exits with 2."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


def shown(value: object) -> str:
    """Return `value` as an error message shows it: its repr on one line, cut to 60 characters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 3] + "..."


def broken_rule(path: str, rule: str, value: object, remedy: str) -> UserError:
    """Return the error for `value` at dotted `path`: `path: rule, got value; remedy`."""
    return UserError(f"{path}: {rule}, got {shown(value)}; {remedy}")


def nearest(name: object, valid: Iterable[str]) -> str | None:
    """Return the valid name that `name` was probably meant to be, or None."""
    found = difflib.get_close_matches(str(name), list(valid), n=1, cutoff=0.5)
    return found[0] if found else None


def suggestion(name: object, valid: Sequence[str]) -> str:
    """Return a remedy: the nearest valid name, if there is one, and all valid names."""
    known = ", ".join(valid) if valid else "none"
    close = nearest(name, valid)
    return f"did you mean {close!r}? (valid: {known})" if close else f"valid: {known}"
