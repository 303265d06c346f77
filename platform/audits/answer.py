"""What `dprl audit` says: of a config's cells, of one mechanism, or of every paper's claims."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dprl.platform.audits.experiments import DEFAULT_RUNS, audit_experiment, audit_mechanism, last_bits
from dprl.platform.configs.config import config_files, load_cells
from dprl.platform.configs.experiment import Experiment
from dprl.platform.configs.sections import field_names
from dprl.platform.errors import UserError, below, broken_rule, suggestion
from dprl.platform.reports.audits import block, papers_text
from dprl.privacy.audits.findings import audit_summary
from dprl.privacy.audits.mechanisms_audited import mechanism_names
from dprl.privacy.audits.papers import audit_papers

_FEWEST_RUNS, _MOST = 100, 2**31


@dataclass(frozen=True)
class Answer:
    """What the command says: as text, as JSON-ready data, and whether something was refuted."""

    text: str
    data: object
    violated: bool


def audit_command(options: argparse.Namespace, labels: Callable[[Sequence[Experiment]], list[str]]) -> Answer:
    """Return what `dprl audit` says to its options. Raises UserError on bad input.

    labels: names the cells of a config.
    """
    seed = _whole_number("--seed", options.seed, 0, "write e.g. --seed 1")
    runs = None if options.runs is None else _whole_number("--runs", options.runs, _FEWEST_RUNS, "write e.g. 100000")
    if options.papers:
        return _audit_papers(options, seed)
    if options.target is None:
        raise UserError("CONFIG|MECHANISM: is required, got nothing; name one, or write --papers")
    if options.target in mechanism_names() and not Path(options.target).exists():
        if options.set:
            raise broken_rule(
                "--set", "must be left out with a mechanism", options.set[0], "name a config to set it in"
            )
        findings = audit_mechanism(options.target, runs, seed)
        data = {"mechanism": options.target, "findings": [finding.to_dict() for finding in findings]}
        return Answer(block(options.target, findings), [data], any(finding.violated for finding in findings))
    return _audit_config(options, labels, runs or DEFAULT_RUNS, seed)


def _audit_papers(options: argparse.Namespace, seed: int) -> Answer:
    for name, given in (("CONFIG|MECHANISM", options.target), ("--set", options.set), ("--runs", options.runs)):
        if given:
            raise broken_rule(name, "must be left out with --papers", given, "its claims and runs are fixed")
    start = time.monotonic()
    page = audit_papers(seed)
    text = papers_text(page, time.monotonic() - start)
    return Answer(text, page.to_dict(), page.inconsistent)


def _audit_config(
    options: argparse.Namespace, labels: Callable[[Sequence[Experiment]], list[str]], runs: int, seed: int
) -> Answer:
    known = list(config_files())
    if not Path(options.target).exists() and options.target not in known:
        remedy = suggestion(options.target, [*mechanism_names(), *known])
        raise broken_rule("CONFIG|MECHANISM", "must be a config or a mechanism", options.target, remedy)
    cells = load_cells(options.target, options.set)
    texts, data, violated = [], [], False
    for cell, label in zip(cells, labels(cells), strict=True):
        try:
            findings = audit_experiment(cell, runs, seed)
        except ValueError as error:
            raise UserError(f"{label}: {below('privacy', field_names(type(cell.privacy)), str(error))}") from None
        told = last_bits(cell)
        texts.append(block(label, findings, told))
        found = {
            "findings": [finding.to_dict() for finding in findings],
            "summary": audit_summary(findings),
            "last_bits": told,
        }
        data.append({"cell": cell.digest, "parameters": cell.parameters(), **found})
        violated |= any(finding.violated for finding in findings)
    return Answer("\n\n".join(texts), data, violated)


def _whole_number(name: str, text: str, least: int, remedy: str) -> int:
    try:
        value = int(float(text)) if float(text).is_integer() else -1
    except (ValueError, OverflowError):
        value = -1
    if not least <= value <= _MOST:
        raise broken_rule(name, f"must be a whole number from {least} to {_MOST}", text, remedy)
    return value
