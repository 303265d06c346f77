"""`dprl audit`: attacks on the noise of a config's cells, or of every paper's claims."""

from __future__ import annotations

import argparse
import time

from dprl.platform.commands.base import add_json, add_set, as_json, say, whole_number
from dprl.platform.errors import EXIT_DONE, EXIT_SOME_FAILED, UserError, broken_rule

HELP = "attack the noise of each cell, or of every paper's claims: lower bounds on epsilon"
EXAMPLE = "audit smoke --runs 200000"
_FEWEST_RUNS, _MOST = 100, 2**31


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("target", metavar="CONFIG", nargs="?", help="a config file, or the name of one")
    parser.add_argument("--papers", action="store_true", help="audit every printed claim of the four papers")
    add_set(parser, "replace a value of the config")
    parser.add_argument("--runs", metavar="N", help="samples from each of two neighbouring inputs, per bound")
    parser.add_argument("--seed", metavar="S", default="0", help="random seed of the audit (default: 0)")
    parser.epilog = (
        f"{parser.epilog}\n\nExit codes: 0 nothing refuted, 1 a claim is refuted or a proof fails, 2 bad input."
        "\nWith --papers: 1 if a control is refuted, or if a measured epsilon exceeds the proved one."
        "\nThe last bits of float64 noise do not change the exit code: the claims are about real numbers."
    )
    add_json(parser)


_Answer = tuple[str, object, bool]
"""What is left to say, the whole answer as JSON-ready data, and whether something was refuted."""


def run(options: argparse.Namespace) -> int:
    """Attack the noise of each cell, or of every paper's claims."""
    text, data, violated = _answer(options)
    say(as_json(data) if options.json else text)
    return EXIT_SOME_FAILED if violated else EXIT_DONE


def _answer(options: argparse.Namespace) -> _Answer:
    seed = whole_number("--seed", options.seed, (0, _MOST), "write e.g. --seed 1")
    runs = None
    if options.runs is not None:
        runs = whole_number("--runs", options.runs, (_FEWEST_RUNS, _MOST), "write e.g. 100000")
    if options.papers:
        return _of_papers(options, seed)
    if options.target is None:
        raise UserError("CONFIG: is required, got nothing; name one, or write --papers")
    return _of_cells(options, runs, seed)


def _of_papers(options: argparse.Namespace, seed: int) -> _Answer:
    from dprl.platform.reports.audits import papers_text
    from dprl.platform.reproductions.privacy_claims import audit_papers

    for name, given in (("CONFIG", options.target), ("--set", options.set), ("--runs", options.runs)):
        if given:
            raise broken_rule(name, "must be left out with --papers", given, "its claims and runs are fixed")
    start = time.monotonic()
    page = audit_papers(seed)
    text = papers_text(page, time.monotonic() - start)
    return text, page.to_dict(), page.inconsistent


def _of_cells(options: argparse.Namespace, runs: int | None, seed: int) -> _Answer:
    from dprl.platform.audits import DEFAULT_RUNS, audit_experiment, last_bits
    from dprl.platform.configs.config import computed, labels_of, load_cells
    from dprl.platform.configs.memory import require_memory
    from dprl.platform.reports.audits import block, outcome
    from dprl.privacy.audits.findings import audit_summary

    cells = load_cells(options.target, options.set)
    require_memory(cells, run=False)
    data, failing = [], list[str]()
    audits = computed(cells, lambda cell: audit_experiment(cell, runs or DEFAULT_RUNS, seed))
    for cell, label, findings in zip(cells, labels_of(cells), audits, strict=True):
        told = last_bits(cell)
        if not options.json:
            say(f"{block(label, findings, told)}\n")
        found = {
            "findings": [finding.to_dict() for finding in findings],
            "summary": audit_summary(findings),
            "last_bits": told,
        }
        data.append({"cell": cell.digest, "parameters": cell.parameters(), **found})
        failing += [label] if any(finding.violated for finding in findings) else []
    return outcome(failing, len(cells)), data, bool(failing)
