"""The `dprl` command: parses the words, runs one of COMMANDS and returns its exit code."""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError, Group, Parameter, UnusedCliTokensError

from dprl import __version__
from dprl.platform import program
from dprl.platform.errors import (
    EXIT_BAD_INPUT,
    EXIT_DONE,
    EXIT_INTERRUPTED,
    EXIT_SOME_FAILED,
    UserError,
    broken_rule,
    fits_into_text,
    missing_extra,
    print_error,
)

_CLUSTER = "--address http://HOST:8265 --storage /shared/dprl --tracking-uri http://HOST:5000"
GROUPS = {
    "run experiments": {
        "sweep:run": "run smoke --set privacy='{model: jdp, epsilon: 2}' --seeds 2",
        "sweep:sweep": "sweep tune_configs/regret_vs_epsilon.yaml --name first_try",
        "submit:submit": f"submit smoke {_CLUSTER}",
        "reproduce:reproduce": "reproduce ot20 --quick",
    },
    "look at results": {
        "report:report": "report regret_vs_epsilon",
        "plot:plot": "plot regret_vs_epsilon frontier --style paper --width 2.7 --out frontier.pdf",
        "ui:ui": "ui --port 5001",
    },
    "check privacy": {
        "certify:certify": "certify --mechanism gaussian --epsilon 1 --delta 1e-6 --users 1000 --horizon 5",
        "verify:verify": "verify smoke",
        "compose:compose": "compose first/certificate.json second/certificate.json --out both.json",
        "audit:audit": "audit smoke --runs 200000",
    },
    "write configs and parts": {"list_parts:list_parts": "list bernstein_vi", "new:new": "new algorithm my_ucb"},
}
"""Functions in commands/ with an example, by headings of the help. The example begins with the command's name."""
COMMANDS = {example.split()[0]: place for group in GROUPS.values() for place, example in group.items()}
WORKING = {"run", "sweep", "submit", "reproduce"}
"""Commands that do more than answer on standard output."""
_GARBAGE_THRESHOLD = 50_000
"""Number of new objects that triggers a collection of the first generation; Python's default is 700."""
_END = """example: {} sweep tune_configs/smoke.yaml

Results go to ./dprl_runs, or to $DPRL_HOME.

Exit codes: 0 done, 1 some cell failed, 2 bad input, 130 interrupted."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 some trial failed, 2 bad input, 130 interrupted."""
    if argv is None:
        # By default, garbage collection takes a third of a short command's time, half of it at exit.
        gc.set_threshold(_GARBAGE_THRESHOLD, 10, 10)
        atexit.register(gc.freeze)
    # Figures go to files. A notebook sets it for every command, to a backend that may not be installed.
    os.environ.pop("MPLBACKEND", None)
    with program.sigterm_as_ctrl_c():
        code = _run(list(sys.argv[1:] if argv is None else argv))
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            # Otherwise Python would report the error again when it closes the stream, and exit with 120.
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return code


def _run(words: list[str]) -> int:
    """Run one command and return its exit code."""
    program.TYPED[:] = words
    try:
        for word in words:
            if not fits_into_text(word):
                raise broken_rule("argument", "must be UTF-8", word, "rename the file or folder")
        command, bound, _ = app(*words[:1]).parse_args(words or ["--help"], print_error=False, exit_on_error=False)
        if words and words[0] in COMMANDS:
            # Imported here because `dprl --help` must not wait for numba.
            from dprl.platform.plugins import load_plugins  # noqa: PLC0415

            load_plugins()
        return command(*bound.args, **bound.kwargs) or EXIT_DONE
    except CycloptsError as error:
        told = str(error).rstrip(" .,")
        if isinstance(error, UnusedCliTokensError):
            told = f"unrecognized arguments: {' '.join(error.unused_tokens or ())}"
            # A shell splits an unquoted {model: jdp, epsilon: 1} at its spaces.
            told += "; quote the value of --set" if any(word.endswith((":", "}")) for word in words) else ""
        see = program.command(*(word for word in words[:1] if word in COMMANDS), "--help")
        print_error(f"dprl: {' '.join(told.split())} (see `{see}`)")
        return EXIT_BAD_INPUT
    except UserError as error:
        print_error(f"dprl: {error}")
        return EXIT_BAD_INPUT
    except ModuleNotFoundError as error:
        print_error(f"dprl: {missing_extra(error)}")
        return EXIT_BAD_INPUT
    except KeyboardInterrupt:
        print_error(f"dprl: interrupted; the same command starts again: {program.resume_command()}")
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) has closed the pipe: fine for an answer, but not for a command that does work.
        working = bool(words) and words[0] in WORKING and "--dry-run" not in words
        return EXIT_SOME_FAILED if working else EXIT_DONE


def app(only: str = "") -> App:
    """Return the application: with one command, or with all of them if that is none."""
    name = program.program()
    found = App(
        name,
        help="Differentially private reinforcement learning, with a privacy certificate for every run.",
        help_epilogue=_END.format(name),
        help_format="plaintext",
        version=f"dprl {__version__}",
        default_parameter=Parameter(negative="", show_default=False, json_list=False, allow_repeating=True),
        result_action="return_value",
    )
    for heading, commands in GROUPS.items():
        group = Group.create_ordered(heading)
        for order, (place, example) in enumerate(commands.items()):
            word = example.split()[0]
            if only in COMMANDS and word != only:
                continue  # its module need not be loaded
            module, _, function = place.partition(":")
            command = getattr(importlib.import_module(f"dprl.platform.commands.{module}"), function)
            found.command(command, word, group=group, help_epilogue=f"example: {name} {example}", sort_key=order)
    found.register_install_completion_command()
    return found


if __name__ == "__main__":
    sys.exit(main())
