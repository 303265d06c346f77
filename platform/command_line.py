"""The `dprl` command: list, run, sweep, submit, report, plot, certify, audit, reproduce, ui."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn, TypeAlias

from dprl.platform.errors import (
    EXIT_BAD_INPUT,
    EXIT_DONE,
    EXIT_INTERRUPTED,
    EXIT_SOME_FAILED,
    UserError,
    broken_rule,
    complain,
    nearest,
    suggestion,
)
from dprl.platform.program import command, program
from dprl.platform.sweep_flags import HOW_TO_RUN, HOW_TO_SWEEP, MAX_RESTARTS, MOST_SEEDS
from dprl.platform.tracking.shown_addresses import without_secrets


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 some trial failed, 2 bad input, 130 interrupted."""
    code = _run(list(sys.argv[1:] if argv is None else argv))
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            # Python would complain once more, and exit with 120, when it closes the stream.
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return code


def _run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    try:
        _require_command(arguments)
        options = _parsed(arguments)
        options.resume_command = getattr(options, "resume_command", resume_command(arguments))
        # Only here: `dprl --help` must not wait for numba.
        from dprl.platform import commands, plugins  # noqa: PLC0415

        plugins.load_plugins()
        return commands.COMMANDS[options.command](options)
    except UserError as error:
        complain(f"dprl: {error}")
        return EXIT_BAD_INPUT
    except KeyboardInterrupt:
        complain(f"dprl: interrupted; the same command starts again: {resume_command(arguments)}")
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) has seen enough of an answer. What works has not ended as it should.
        return EXIT_DONE if _answers(arguments) else EXIT_SOME_FAILED
    except SystemExit as done:  # argparse ends this way after --help
        return int(done.code or 0)


def _answers(arguments: Sequence[str]) -> bool:
    """Whether what the command prints is all that it does."""
    return not arguments or arguments[0] not in _WORKING or "--dry-run" in arguments


def resume_command(words: Sequence[str]) -> str:
    """Return the command that goes on where the command of these words was stopped; it is written into files."""
    return command(*(_harmless(word) for word in words if word != "--fresh"))


def _harmless(word: str) -> str:
    """Return a word of a command without what may be secret in an address."""
    option, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
    return f"{option}{equals}{without_secrets(value)}"


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    """Return the options; raise UserError."""
    parser = _parser()
    options, unknown = parser.parse_known_args(words)
    if not unknown:
        return options
    meant = nearest(unknown[0].partition("=")[0], options.flags)
    # A shell splits what is not quoted at the spaces of {model: jdp, epsilon: 1}.
    unquoted = any(word.endswith((":", "}")) for word in unknown)
    hint = f"did you mean {meant}? " if meant else "quote the value of --set; " if unquoted else ""
    raise UserError(f"unrecognized arguments: {' '.join(unknown)}; {hint}see `{command(options.command, '--help')}`")


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        """Raise UserError."""
        raise UserError(f"{message}; see `{self.prog} --help`")


_SET = "replace a value, e.g. env.horizon=10 or 'privacy={model: jdp, epsilon: 2}'; may be repeated"
_Subparsers: TypeAlias = "argparse._SubParsersAction[_Parser]"


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog=program(),
        description="Differentially private reinforcement learning, with a privacy certificate for every run.",
        epilog=f"example: {program()} sweep tune_configs/smoke.yaml\n\n"
        "Results go to ./dprl_runs, or to $DPRL_HOME.\n"
        "Exit codes: 0 done, 1 some cell failed, 2 bad input, 130 interrupted.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for add in _COMMANDS.values():
        add(commands)
    for one in commands.choices.values():
        one.set_defaults(flags=[flag for action in one._actions for flag in action.option_strings])
    return parser


class _Version(argparse.Action):
    """Prints the version, which takes a moment to look up."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Print it and exit."""
        from dprl import __version__  # noqa: PLC0415

        print(f"dprl {__version__}")
        parser.exit()


def _add(commands: _Subparsers, name: str, text: str, example: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=text,
        description=text[0].upper() + text[1:] + ".",
        epilog=f"example: {program()} {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(command=name)
    return parser


def _add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", metavar="CONFIG", help="a YAML file, or the name of one in tune_configs/")
    _add_set(parser)
    _add_json(parser)


def _add_set(parser: argparse.ArgumentParser, text: str = _SET) -> None:
    parser.add_argument("--set", metavar="PATH=VALUE", action="append", default=[], help=text)


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON for a program to read")


def _add_list(commands: _Subparsers) -> None:
    parser = _add(commands, "list", "list the names that a config can use", "list envs")
    kinds = ["algorithms", "envs", "trust_models", "counters", "mechanisms", "configs"]
    parser.add_argument("kind", nargs="?", choices=kinds, help="one kind, with all keys (default: only names)")
    _add_json(parser)


def _add_run(commands: _Subparsers) -> None:
    parser = _add(
        commands,
        "run",
        "run every cell of a config in this process, without Ray",
        "run smoke --set privacy='{model: jdp, epsilon: 2}' --seeds 2",
    )
    _add_config(parser)
    parser.add_argument("--seeds", metavar="N", help="the same as --set seeds=N")
    _add_naming(parser)


def _add_sweep(commands: _Subparsers) -> None:
    parser = _add(
        commands,
        "sweep",
        "run every cell of a config as a Ray Tune trial; repeat the command to resume",
        "sweep tune_configs/regret_vs_epsilon.yaml --name first_try",
    )
    _add_config(parser)
    _add_how_to_sweep(parser)
    parser.add_argument("--address", metavar="ADDR", help="address of a running Ray cluster (default: this machine)")
    parser.add_argument(
        "--tracking-uri",
        metavar="URI",
        help="URI of MLflow (default: $MLFLOW_TRACKING_URI, or a database in the results' folder)",
    )
    parser.add_argument(
        "--storage",
        metavar="URI",
        help="a folder for all results, seen by every node of a cluster (default: $DPRL_HOME or ./dprl_runs)",
    )
    parser.add_argument("--dry-run", action="store_true", help="show the cells and what each would prove; run nothing")
    # `dprl submit` says what its user typed: on the cluster that is another command.
    parser.add_argument("--resume-command", default=argparse.SUPPRESS, help=argparse.SUPPRESS)


def _add_submit(commands: _Subparsers) -> None:
    parser = _add(
        commands,
        "submit",
        "run a sweep as a job on a running Ray cluster, with this code, and follow it",
        "submit smoke --address http://HOST:8265 --storage /shared/dprl --tracking-uri http://HOST:5000",
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("config", metavar="CONFIG", nargs="?", help="as for sweep: a YAML file of this machine")
    what.add_argument("--follow", metavar="JOB", help="show the log of a job that was submitted, until it ends")
    what.add_argument("--stop", metavar="JOB", help="stop a job; submit the sweep again to resume it")
    parser.add_argument("--address", metavar="URL", required=True, help="URL of Ray's dashboard, http://HOST:8265")
    _add_set(parser)
    _add_how_to_sweep(parser)
    parser.add_argument(
        "--tracking-uri",
        metavar="URI",
        help="URI of MLflow, as the cluster's head reaches it (default: $MLFLOW_TRACKING_URI)",
    )
    parser.add_argument("--storage", metavar="URI", help="a folder for all results, at the same path on every node")
    parser.add_argument("--no-wait", action="store_true", help="return once the job is submitted")
    _add_json(parser)
    parser.epilog = (
        f"{parser.epilog}\n\nThe exit code is the sweep's; 130 if the job was stopped, or is no longer followed."
        "\nA cluster with token authentication: set RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH, or have ~/.ray/auth_token."
    )


def _add_naming(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--name", help="name of the sweep and of its folder (default: the config's name)")
    _add_flags(parser, HOW_TO_RUN)


def _add_how_to_sweep(parser: argparse.ArgumentParser) -> None:
    """Add what `sweep` and `submit` take alike; `sweep_words` hands it on."""
    _add_naming(parser)
    _add_flags(parser, HOW_TO_SWEEP)
    parser.add_argument(MOST_SEEDS, metavar="N", help="with --adaptive: most seeds per cell (default: 5 times seeds)")
    restarts = "how often a cell restarts elsewhere after its worker or node is lost; -1: no limit (default: 3)"
    parser.add_argument(MAX_RESTARTS, metavar="N", help=restarts)


def _add_flags(parser: argparse.ArgumentParser, flags: Mapping[str, str]) -> None:
    for flag, text in flags.items():
        parser.add_argument(flag, action="store_true", help=text)


def _add_report(commands: _Subparsers) -> None:
    parser = _add(
        commands,
        "report",
        "report the best algorithm at each epsilon: a page with figures, tables and tests",
        "report regret_vs_epsilon",
    )
    parser.add_argument("sweeps", metavar="SWEEP", nargs="+", help="the name of a sweep, or its folder")
    where = "folder of report.html and its files (default: that of the only sweep), or a file for a Markdown page"
    parser.add_argument("--out", metavar="DIR|FILE.md", help=where)
    parser.add_argument("--title", help="title of the page (default: the names of the sweeps)")
    parser.add_argument("--preface", metavar="FILE.md", help="Markdown for the top of a Markdown page")
    parser.add_argument(
        "--compare",
        metavar=("ONE", "OTHER"),
        nargs=2,
        help="also test these two algorithms or cells; on a Markdown page: ratio of the episodes to half regret, OTHER "
        "algorithm to ONE",
    )
    parser.add_argument("--storage", metavar="URI", help="as for sweep (default: $DPRL_HOME or ./dprl_runs)")
    _add_json(parser)


def _add_plot(commands: _Subparsers) -> None:
    parser = _add(
        commands,
        "plot",
        "draw one figure of a sweep for a paper or for slides, and print its caption",
        "plot regret_vs_epsilon frontier --style paper --width 2.7 --out frontier.pdf",
    )
    parser.add_argument("sweep", metavar="SWEEP", help="the name of a sweep, or its folder")
    parser.add_argument("figure", metavar="FIGURE", nargs="?", help="frontier, curves, ...; without it, all are listed")
    parser.add_argument("--style", choices=["paper", "slides"], default="paper", help="sizes of text and lines")
    parser.add_argument("--width", metavar="INCHES", help="2.7 is half a page, also 14cm (default: 5.5, slides 11)")
    parser.add_argument("--format", choices=["pdf", "svg", "png"], help="default: that of --out, else pdf")
    parser.add_argument("--out", metavar="FILE", help="default: SWEEP_FIGURE.FORMAT in this folder")
    parser.add_argument("--storage", metavar="URI", help="as for sweep (default: $DPRL_HOME or ./dprl_runs)")


def _add_certify(commands: _Subparsers) -> None:
    parser = _add(
        commands,
        "certify",
        "show the privacy certificate of each cell without running it",
        "certify regret_vs_epsilon --set episodes=1000",
    )
    _add_config(parser)


def _add_audit(commands: _Subparsers) -> None:
    parser = _add(
        commands,
        "audit",
        "attack the noise of each cell, of one mechanism or of every paper's claims: lower bounds on epsilon",
        "audit smoke --runs 200000",
    )
    parser.add_argument("target", metavar="CONFIG|MECHANISM", nargs="?", help="a config or a mechanism, e.g. laplace")
    parser.add_argument("--papers", action="store_true", help="audit every printed claim of the four papers")
    _add_set(parser, "replace a value of the config")
    parser.add_argument("--runs", metavar="N", help="samples from each of two neighbouring inputs, per bound")
    parser.add_argument("--seed", metavar="S", default="0", help="random seed of the audit (default: 0)")
    parser.epilog = (
        f"{parser.epilog}\n\nExit codes: 0 nothing refuted, 1 a claim is refuted or a proof fails, 2 bad input."
    )
    parser.epilog += "\nWith --papers: 1 if a control is refuted, or more is measured than is proved."
    parser.epilog += "\nLast bits of float64 noise do not change the exit code: the claim is on real numbers."
    _add_json(parser)


def _add_reproduce(commands: _Subparsers) -> None:
    parser = _add(
        commands,
        "reproduce",
        "run a paper's experiments and compare its numbers with ours; repeat the command to resume",
        "reproduce pgc-a3c --quick",
    )
    parser.add_argument("paper", metavar="PAPER", nargs="?", default="all", help="pgc-a3c, ma-ldp, or all (default)")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="as many trials as the paper has: 20, or 10 for ma-ldp")
    size.add_argument("--full", action="store_true", help="100 trials, for narrower intervals (default)")
    parser.add_argument("--fresh", action="store_true", help=HOW_TO_RUN["--fresh"])
    _add_json(parser)


def _add_ui(commands: _Subparsers) -> None:
    parser = _add(commands, "ui", "open MLflow's web pages on the results", "ui --port 5001")
    parser.add_argument("--port", metavar="N", default="5000", help="TCP port (default: 5000)")
    parser.add_argument("--storage", metavar="URI", help="as for sweep (default: $DPRL_HOME or ./dprl_runs)")


_COMMANDS = {
    "list": _add_list,
    "run": _add_run,
    "sweep": _add_sweep,
    "submit": _add_submit,
    "report": _add_report,
    "plot": _add_plot,
    "certify": _add_certify,
    "audit": _add_audit,
    "reproduce": _add_reproduce,
    "ui": _add_ui,
}
_WORKING = {"run", "sweep", "submit", "reproduce"}
"""Commands that do more than answer on standard output."""


def _require_command(words: Sequence[str]) -> None:
    """Raise UserError if the first word is no command; argparse would not offer the nearest."""
    if words and not words[0].startswith("-") and words[0] not in _COMMANDS:
        raise broken_rule("COMMAND", "must be a command", words[0], suggestion(words[0], list(_COMMANDS)))


if __name__ == "__main__":
    sys.exit(main())
