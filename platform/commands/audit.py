"""`dprl audit`: attacks on the noise of a config's cells, or of every paper's claims."""

from __future__ import annotations

import time
from typing import Annotated

from cyclopts import Parameter

from dprl.platform.commands.base import Json, Settings, expanded_cells, json_text, say, whole
from dprl.platform.errors import EXIT_DONE, EXIT_SOME_FAILED, UserError, broken_rule

_MOST = 2**31


def audit(
    config: Annotated[str | None, Parameter(help="a config file, or the name of one")] = None,
    /,
    *,
    papers: Annotated[bool, Parameter(help="audit every printed claim of the four papers")] = False,
    settings: Settings = (),  # type: ignore[assignment]
    runs: Annotated[int | None, whole(100, _MOST, "samples from each of two neighbouring inputs, per bound")] = None,
    seed: Annotated[int, whole(0, _MOST, "random seed of the audit")] = 0,
    as_json: Json = False,
) -> int:
    """Attack the noise of each cell, or of every paper's claims: lower bounds on epsilon.

    Exit codes: 0 nothing refuted, 1 a claim is refuted or a proof fails, 2 bad input. With --papers: 1 if a measured
    epsilon exceeds the proved one. The last bits of float64 noise do not change the exit
    code: the claims are about real numbers.
    """
    if papers:
        for name, given in (("CONFIG", config), ("--set", settings), ("--runs", runs)):
            if given:
                raise broken_rule(name, "must be left out with --papers", given, "its claims and runs are fixed")
        from dprl.papers.claims import audit_papers, audit_text

        start = time.monotonic()
        page = audit_papers(seed)
        say(json_text(page.to_dict()) if as_json else audit_text(page, time.monotonic() - start))
        return EXIT_SOME_FAILED if page.wrong_proofs else EXIT_DONE
    if config is None:
        raise UserError("CONFIG: is required, got nothing; name one, or write --papers")
    from dprl.platform.audits import DEFAULT_RUNS, audit_experiment, last_bits
    from dprl.platform.configs.config import computed
    from dprl.platform.configs.experiment import labels_of
    from dprl.platform.reports.audits import block, outcome
    from dprl.privacy.audits.findings import audit_summary

    cells = expanded_cells(config, settings, run=False)
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
    say(json_text(data) if as_json else outcome(failing, len(cells)))
    return EXIT_SOME_FAILED if failing else EXIT_DONE
