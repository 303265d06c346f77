"""Errors for users: one line with the rule, the value, the remedy and the nearest valid name."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress

EXIT_DONE = 0
EXIT_SOME_FAILED = 1
EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130

_LONGEST_VALUE = 60
LONGEST_LINE = 300 - len("dprl: ")
_LONGEST_END = 140
_LONGEST_WORD = 40
_SIMILAR = 0.7


class UserError(Exception):
    """Bad input: one line with place, rule, value and remedy; the command exits with 2.

    Control characters are escaped, because keys of a config can be anything. A line has at most 300 characters with the
    command's name; a longer one is shortened in the middle, because its end is the remedy.
    """

    def __init__(self, message: str) -> None:
        line = printable(" ".join(message.split()))
        if len(line) > LONGEST_LINE:
            begin, end = line[: LONGEST_LINE - _LONGEST_END - 5], line[-_LONGEST_END:]
            # Cut at a space, unless a long word has none.
            after, before = begin.rfind(" ", -_LONGEST_WORD), end.find(" ", 0, _LONGEST_WORD)
            line = f"{begin[:after] if after > 0 else begin} ... {end[before + 1 :]}"
        super().__init__(line)


_EXTRAS = {**dict.fromkeys(("ray", "grpc"), "ray"), **dict.fromkeys(("torch", "tree", "lz4", "ormsgpack"), "rllib")}
"""Extras of the project by the packages that they install."""


def missing_extra(error: ModuleNotFoundError) -> UserError:
    """Return the error that names the extra to install; raise `error` again for a package of no extra."""
    package = (error.name or "").partition(".")[0]
    if package not in _EXTRAS:
        raise error
    remedy = f"run: pip install 'dprl[{_EXTRAS[package]}]'"
    without = "; `dprl run` needs no Ray" if _EXTRAS[package] == "ray" else ""
    return UserError(f"{package} must be installed for this, got no such package; {remedy}{without}")


class Interrupted(KeyboardInterrupt):
    """Ctrl-C; the command to resume has been shown."""


def shown(value: object) -> str:
    """Return `value` as an error message shows it: its repr on one line, cut to 60 characters."""
    return shortened(" ".join(repr(value).split()))


def dotted(path: str, key: object) -> str:
    """Return the dotted path of `key` below `path`, a long key cut to 60 characters."""
    return f"{path}.{shortened(str(key))}" if path else shortened(str(key))


def printable(text: str) -> str:
    """Return `text` with unprintable characters escaped as in its repr."""
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def fits_into_text(path: str) -> bool:
    """Whether a path or word of the command line is UTF-8, and can be written to files and databases."""
    return not any("\ud800" <= letter <= "\udfff" for letter in path)


def shortened(text: str, most: int = _LONGEST_VALUE) -> str:
    """Return `text`, cut to `most` characters."""
    return text if len(text) <= most else text[: most - 3] + "..."


def print_error(line: str) -> None:
    """Print an error line, unless the pipe is closed; the exit code reports the error too."""
    with suppress(BrokenPipeError):
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


def first_line(error: BaseException | None) -> str:
    """Return the first line of an error's text, or the name of its class."""
    return next(iter(str(error).splitlines()), type(error).__name__)


def how_to_resume(command: str) -> str:
    """Return the message after Ctrl-C."""
    return f"interrupted; what is done is kept, resume with: {command}"


def counted(number: int, noun: str) -> str:
    """Return '1 cell', '2 cells'."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def first_of(names: Sequence[str], most: int) -> list[str]:
    """Return at most `most` of the names, and the number of the others.

    >>> first_of(["a", "b", "c"], 2)
    ['a', 'b', 'and 1 more']
    """
    return [*names[:most], *([f"and {len(names) - most:,} more"] if len(names) > most else [])]


def broken_rule(path: str, rule: str, value: object, remedy: str) -> UserError:
    """Return the error for `value` at dotted `path`: `path: rule, got value; remedy`."""
    return UserError(f"{path}: {rule}, got {shown(value)}; {remedy}")


def nearest(name: object, valid: Iterable[str]) -> str | None:
    """Return the valid name that was probably meant by `name`, or None.

    It has the same letters in another order, or similar letters: 'jpd' means 'jdp', but 'dp', as near to 'jdp' as to
    'ldp', means neither.
    """
    text, names = str(name), list(valid)
    likeness = {one: difflib.SequenceMatcher(None, one, text).ratio() for one in names}
    similar = [one for one in names if likeness[one] >= _SIMILAR and likeness[one] == max(likeness.values())]
    swapped = [one for one in names if sorted(one) == sorted(text)]
    return next(iter(swapped or (similar if len(similar) == 1 else [])), None)


def suggestion(name: object, valid: Sequence[str]) -> str:
    """Return a remedy: the nearest valid name, if there is one, and all valid names."""
    known = ", ".join(valid) if valid else "none"
    close = nearest(name, valid)
    return f"did you mean {close!r}? (valid: {known})" if close else f"valid: {known}"
