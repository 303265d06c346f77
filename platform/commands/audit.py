"""`dprl audit`: attacks on the noise of a config's cells, or of every paper's claims."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated

from cyclopts import Parameter

from dprl.platform.commands.base import Json, Settings, json_text, say, whole
from dprl.platform.errors import EXIT_DONE, EXIT_SOME_FAILED, UserError, broken_rule

_MOST = 2**31
_Answer = tuple[str, object, bool]
"""What is left to say, the whole answer as JSON-ready data, and whether something was refuted."""


def audit(
    config: Annotated[str | None, Parameter(help="a config file, or the name of one")] = None,
    /,
    *,
    papers: Annotated[bool, Parameter(help="audit every printed claim of the four papers")] = False,
    settings: Settings = (),  # type: ignore[assignment]
    runs: Annotated[
        int | None, whole(100, _MOST, "100000", "samples from each of two neighbouring inputs, per bound")
    ] = None,
    seed: Annotated[int, whole(0, _MOST, "--seed 1", "random seed of the audit")] = 0,
    as_json: Json = False,
) -> int:
    """Attack the noise of each cell, or of every paper's claims: lower bounds on epsilon.

    Exit codes: 0 nothing refuted, 1 a claim is refuted or a proof fails, 2 bad input. With --papers: 1 if a control is
    refuted, or if a measured epsilon exceeds the proved one. The last bits of float64 noise do not change the exit
    code: the claims are about real numbers.
    """
    if papers:
        for name, given in (("CONFIG", config), ("--set", settings), ("--runs", runs)):
            if given:
                raise broken_rule(name, "must be left out with --papers", given, "its claims and runs are fixed")
        text, data, violated = _of_papers(seed)
    elif config is None:
        raise UserError("CONFIG: is required, got nothing; name one, or write --papers")
    else:
        text, data, violated = _of_cells(config, settings, runs, seed, as_json)
    say(json_text(data) if as_json else text)
    return EXIT_SOME_FAILED if violated else EXIT_DONE


def _of_papers(seed: int) -> _Answer:
    from dprl.papers.claims import audit_papers, audit_text

    start = time.monotonic()
    page = audit_papers(seed)
    text = audit_text(page, time.monotonic() - start)
    return text, page.to_dict(), page.inconsistent


def _of_cells(config: str, settings: Sequence[str], runs: int | None, seed: int, as_json: bool) -> _Answer:
    from dprl.platform.audits import DEFAULT_RUNS, audit_experiment, last_bits
    from dprl.platform.configs.config import computed, labels_of, load_cells
    from dprl.platform.configs.memory import require_memory
    from dprl.platform.reports.audits import block, outcome
    from dprl.privacy.audits.findings import audit_summary

    cells = load_cells(config, settings)
    require_memory(cells, run=False)
    data, failing = [], list[str]()
    audits = computed(cells, lambda cell: audit_experiment(cell, runs or DEFAULT_RUNS, seed))
    for cell, label, findings in zip(cells, labels_of(cells), audits, strict=True):
        told = last_bits(cell)
        if not as_json:
            say(f"{block(label, findings, told)}\n")
        found = {
            "findings": [finding.to_dict() for finding in findings],
            "summary": audit_summary(findings),
            "last_bits": told,
        }
        data.append({"cell": cell.digest, "parameters": cell.parameters(), **found})
        failing += [label] if any(finding.violated for finding in findings) else []
    return outcome(failing, len(cells)), data, bool(failing)
