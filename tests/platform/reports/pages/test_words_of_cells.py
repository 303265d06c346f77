"""Words and units of a report's tables: the best of several algorithms, own rewards, many settings."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from dprl.platform.reports.comparing.groups import groups_of
from dprl.platform.reports.comparing.report_cells import ReportCell
from dprl.platform.reports.pages.certificate import certificate_page
from dprl.platform.reports.pages.writing import SweepReport
from tests.platform.reports.cases import NONE, jdp
from tests.platform.reports.figures.cases import of, report_cell


def cells(*algorithms: str, **columns: Any) -> list[ReportCell]:
    found = [report_cell(of(name, privacy)) for name in algorithms for privacy in (NONE, jdp(1.0))]
    return [replace(cell, row={**cell.row, **columns}) for cell in found]


def page(folder: Path, found: list[ReportCell]) -> str:
    return SweepReport([], groups_of(found), []).write(folder, "a test")[0].read_text()


def headers(text: str) -> list[str]:
    table = text[text.index('class="all') :]
    return re.findall(r"<th[^>]*>([^<]*)", table[: table.index("</thead>")])


def test_one_algorithm_alone_is_not_called_the_best(tmp_path: Path) -> None:
    alone = page(tmp_path, cells("bernstein_vi"))
    assert "Best algorithm" not in alone
    assert "best algorithm" not in alone
    assert "Best algorithm at each budget" in page(tmp_path, cells("bernstein_vi", "private_ucb_vi"))


def test_mapped_rewards_are_shown_in_own_units_beside_them(tmp_path: Path) -> None:
    mapped = {"derived_reward_low": -100.0, "derived_reward_high": 0.0}
    found = cells("bernstein_vi", **mapped)
    text, (group,) = page(tmp_path, found), groups_of(found)
    for cell in found:
        own = 100.0 * cell.estimate.value / group.episodes
        # In the table of budgets and in that of all cells.
        assert text.count(f"{own:.3g} in own rewards") >= 2
    assert "in own rewards" not in page(tmp_path, cells("bernstein_vi"))


def test_a_certificate_says_what_noise_is_in_own_rewards() -> None:
    certificate = report_cell(of("bernstein_vi", jdp(1.0))).certificate
    told = "mapped from [-100, 0] to [0, 1]; noise of 1 on a sum of rewards is 100 of the environment"
    assert told in certificate_page(certificate, {}, "cliff", (-100.0, 0.0))
    assert "noise of 1" not in certificate_page(certificate, {}, "river")


def test_further_settings_share_a_column_so_that_none_is_cut(tmp_path: Path) -> None:
    names = ("beta", "preset", "consistency", "known_transitions", "simulation", "stationary")
    found = [
        replace(cell, row={**cell.row, **{f"algorithm.{name}": f"value_{i}" for name in names}})
        for i, cell in enumerate(cells("bernstein_vi"))
    ]
    text = page(tmp_path, found)
    shown = [name for name in headers(text) if name.lower().replace(" ", "_") in names]
    assert shown == ["Beta", "Simulation", "Preset", "Stationary"]
    assert "Other settings" in headers(text)
    plain = re.sub(r"<[^>]+>", "", text)
    assert all(f"{name}=value_0" in plain for name in ("consistency", "known_transitions"))
