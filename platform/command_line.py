"""The `dprl` command: parses the words, runs one of COMMANDS and returns its exit code."""

from __future__ import annotations

import argparse
import atexit
import gc
import os
import shutil
import sys
import textwrap
from collections.abc import Generator, Iterator, Sequence
from typing import NoReturn

from rich_argparse import RawDescriptionRichHelpFormatter

from dprl.platform.commands import COMMANDS, GROUPS, WORKING
from dprl.platform.errors import (
    EXIT_BAD_INPUT,
    EXIT_DONE,
    EXIT_INTERRUPTED,
    EXIT_SOME_FAILED,
    UserError,
    broken_rule,
    fits_into_text,
    missing_extra,
    nearest,
    print_error,
    suggestion,
)
from dprl.platform.program import command, program, sigterm_as_ctrl_c
from dprl.platform.tracking.redaction import without_secrets

_GARBAGE_THRESHOLD = 50_000
"""Number of new objects that triggers a collection of the first generation; Python's default is 700."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 some trial failed, 2 bad input, 130 interrupted."""
    if argv is None:
        _collect_garbage_rarely()
    # Figures go to files. A notebook sets it for every command, to a backend that may not be installed.
    os.environ.pop("MPLBACKEND", None)
    with sigterm_as_ctrl_c():
        code = _run(list(sys.argv[1:] if argv is None else argv))
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            # Otherwise Python would report the error again when it closes the stream, and exit with 120.
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return code


def _collect_garbage_rarely() -> None:
    """Make cyclic garbage collection rare, also when the process ends.

    By default it takes a third of a short command's time: a second while modules are loaded, and another at exit.
    """
    gc.set_threshold(_GARBAGE_THRESHOLD, 10, 10)
    atexit.register(gc.freeze)


def _run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    try:
        _require_command(arguments)
        for word in arguments:
            if not fits_into_text(word):
                raise broken_rule("argument", "must be UTF-8", word, "rename the file or folder")
        options = _parsed(arguments)
        options.resume_command = getattr(options, "resume_command", resume_command(arguments))
        # Imported here because `dprl --help` must not wait for numba.
        from dprl.platform.plugins import load_plugins  # noqa: PLC0415

        load_plugins()
        return COMMANDS[options.command].run(options)
    except UserError as error:
        print_error(f"dprl: {error}")
        return EXIT_BAD_INPUT
    except ModuleNotFoundError as error:
        print_error(f"dprl: {missing_extra(error)}")
        return EXIT_BAD_INPUT
    except KeyboardInterrupt:
        print_error(f"dprl: interrupted; the same command starts again: {resume_command(arguments)}")
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) has closed the pipe: fine for an answer, but not for a command that does work.
        return EXIT_DONE if _answers(arguments) else EXIT_SOME_FAILED
    except SystemExit as done:  # argparse ends this way after --help
        return int(done.code or 0)


def _answers(arguments: Sequence[str]) -> bool:
    """Whether the command only prints an answer."""
    return not arguments or arguments[0] not in WORKING or "--dry-run" in arguments


def resume_command(words: Sequence[str]) -> str:
    """Return the command that resumes the one with these words, without secrets because it is written to files."""
    return command(*(_harmless(word) for word in words if word != "--fresh"))


def _harmless(word: str) -> str:
    """Return a word of a command without possible secrets in an address."""
    option, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
    return f"{option}{equals}{without_secrets(value)}"


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    """Return the options; raise UserError."""
    parser = _parser()
    options, unknown = parser.parse_known_args(words)
    if not unknown:
        return options
    meant = nearest(unknown[0].partition("=")[0], options.flags)
    # A shell splits an unquoted {model: jdp, epsilon: 1} at its spaces.
    unquoted = any(word.endswith((":", "}")) for word in unknown)
    hint = f"did you mean {meant}? " if meant else "quote the value of --set; " if unquoted else ""
    raise UserError(f"unrecognized arguments: {' '.join(unknown)}; {hint}see `{command(options.command, '--help')}`")


class _Parser(argparse.ArgumentParser):
    """Parser that raises errors of one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        """Raise UserError."""
        raise UserError(f"{message}; see `{self.prog} --help`")


class _Help(RawDescriptionRichHelpFormatter):
    """Help in colour, with headings as they are written; the commands are in a description, by groups."""

    group_name_formatter = str

    def _iter_indented_subactions(self, action: argparse.Action) -> Generator[argparse.Action, None, None]:
        """Yield none of the commands, which would be listed a second time."""
        del action
        yield from ()


def _overview() -> Iterator[str]:
    """Yield the lines of the help on all commands, by group."""
    widest = max(map(len, COMMANDS))
    width = min(100, shutil.get_terminal_size().columns) - 4
    for title, group in GROUPS.items():
        yield title
        for name, module in group.items():
            yield from textwrap.wrap(
                module.HELP, width, initial_indent=f"  {name:<{widest}}  ", subsequent_indent=" " * (widest + 4)
            )


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog=program(),
        description="Differentially private reinforcement learning, with a privacy certificate for every run.",
        epilog=f"example: {program()} sweep tune_configs/smoke.yaml\n\n"
        "Results go to ./dprl_runs, or to $DPRL_HOME.\n"
        "Exit codes: 0 done, 1 some cell failed, 2 bad input, 130 interrupted.",
        formatter_class=_Help,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    subparsers = parser.add_subparsers(
        title="commands",
        description="\n".join(_overview()),
        metavar="COMMAND",
        required=True,
        help=f"`{program()} COMMAND --help` lists its flags",
    )
    for name, module in COMMANDS.items():
        own = subparsers.add_parser(
            name,
            help=module.HELP,
            description=f"{module.HELP[0].upper()}{module.HELP[1:]}.",
            epilog=f"example: {program()} {module.EXAMPLE}",
            formatter_class=_Help,
            allow_abbrev=False,
        )
        module.add_flags(own)
        flags = [flag for action in own._actions for flag in action.option_strings]
        own.set_defaults(command=name, flags=flags)
    return parser


class _Version(argparse.Action):
    """Prints the version, which is looked up only then because it takes a moment."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Print it and exit."""
        from dprl import __version__  # noqa: PLC0415

        print(f"dprl {__version__}")
        parser.exit()


def _require_command(words: Sequence[str]) -> None:
    """Raise UserError if the first word is no command, with the nearest one, which argparse would not suggest."""
    if words and not words[0].startswith("-") and words[0] not in COMMANDS:
        raise broken_rule("COMMAND", "must be a command", words[0], suggestion(words[0], list(COMMANDS)))


if __name__ == "__main__":
    sys.exit(main())
