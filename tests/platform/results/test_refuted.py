"""A refuted cell is shown as refuted everywhere: in the summary, the table, the title, pages and MLflow."""

from __future__ import annotations

import dataclasses
import io
import json
import math
from pathlib import Path
from typing import Any

import pytest

from dprl.platform.reports.tables import write_summary
from dprl.platform.reports.verdicts import certificate_text
from dprl.platform.results.cell_folder import CellResults
from dprl.platform.results.cells import read_cells
from dprl.platform.results.compare import groups_of
from dprl.platform.results.layout import SweepLayout
from dprl.platform.results.summary import privacy_columns, standing, summary_row
from dprl.platform.sweeps.sweep import run_sweep
from dprl.platform.tracking.exporter import cell_metrics, cell_tags
from dprl.privacy.certificate import sealed
from tests.platform.reports.cases import cell, finished, jdp, page, records, summary, tables_of
from tests.platform.results.cases import report_cell
from tests.platform.sweeps.test_sweep import cells_of as sweep_cells
from tests.platform.sweeps.test_sweep import options

AUDIT = {"verdict": "refuted", "epsilon_lb": 3.0, "confidence": 1.0 - 5e-7, "runs": 9, "method": "a test"}
WRONG = {**AUDIT, "contradicts_proof": True}


def audited(audit: dict[str, Any], epsilon: float = 1.0) -> CellResults:
    one = cell(jdp(epsilon))
    plain = finished(one, records(one))
    return dataclasses.replace(plain, certificate={**plain.certificate, "audit": audit})


def test_nothing_of_a_contradicted_proof_stands() -> None:
    certificate = audited(WRONG).certificate
    assert certificate["verdict"] == "holds"
    assert standing(certificate) == (math.inf, "fails", True, True)
    columns = privacy_columns(certificate)
    assert columns["verdict"] == "fails"
    shown = {key: value for key, value in columns.items() if key.startswith(("proved", "epsilon_at", "factor"))}
    assert len(shown) >= 4
    assert set(shown.values()) == {math.inf}
    assert "REFUTED" in (text := certificate_text("cell", certificate)).splitlines()[0]
    assert "wrong with probability 5e-07 at most" in text


def test_a_claim_that_is_refuted_within_its_proof_keeps_the_proof() -> None:
    certificate = audited({**AUDIT, "contradicts_proof": False}).certificate
    assert standing(certificate)[1:] == ("holds", True, False)
    assert standing(certificate)[0] == pytest.approx(1.0)


def test_tables_pages_and_mlflow_show_no_epsilon() -> None:
    one, results = cell(jdp(1)), audited(WRONG)
    row = summary_row(one, results)
    frame = summary([one]).assign(**{key: row[key] for key in ("proved_epsilon", "verdict")})
    table = io.StringIO()
    write_summary(table, frame)
    assert "NO PRIVACY" in table.getvalue()
    assert "holds" not in table.getvalue()
    refuted = report_cell([1.0, 2.0, 3.0], audit=WRONG, proved=math.inf, verdict="fails")
    (row,) = tables_of(page([refuted]))[-1]
    assert (row["Claim"], row["Certified \u03b5"]) == ("\u26a0 REFUTED", "\u221e")
    assert cell_tags(results)["verdict"] == "fails"
    assert cell_tags(results)["proved_epsilon"] == "inf"
    # MLflow's stores take finite numbers only.
    assert "privacy/certified_epsilon" not in {point.key for point in cell_metrics(one.algorithm.metrics, results)}


def test_a_cell_is_read_with_what_an_audit_has_added_since_the_summary(tmp_path: Path) -> None:
    layout = SweepLayout(tmp_path, "small")
    cells = sweep_cells(tmp_path, privacy={"model": "jdp", "epsilon": 1.0}, grid_search=[{"seed": 0}, {"seed": 2}])
    run_sweep(cells, options(tmp_path))
    assert [cell.row["verdict"] for cell in read_cells([layout, layout])] == ["holds", "holds"]
    folder = layout.cells(cells)[0].folder
    told = json.loads(folder.certificate_file.read_text())
    folder.certificate_file.write_text(json.dumps(sealed({**told, "audit": WRONG})))
    first, second = read_cells([layout])
    assert (first.proved, first.row["verdict"], second.row["verdict"]) == (math.inf, "fails", "holds")
    (group,) = groups_of([first, second])
    assert [name.count("seed=") for name in group.names] == [1, 1]
