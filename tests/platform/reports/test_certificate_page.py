"""Pages of certificates: self-contained, with every channel that is not covered and a delta that is too large."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from markupsafe import escape

from dprl.platform.configs.config import config_files, load_cells
from dprl.platform.reports.verdicts import certificate_facts, certificate_page
from dprl.platform.results.cell_folder import CellFolder
from tests.platform.reports.cases import cell, jdp


def page(config: str, i: int) -> tuple[str, dict[str, Any]]:
    found = load_cells(config_files()[config])[i].certificate().to_dict()
    return certificate_page(found, {"dprl": "1.2.3", "numpy": "2.0"}, "a cell"), found


def test_the_page_is_self_contained_and_has_all_parts() -> None:
    text, found = page("trust_models", -1)
    assert not re.search(r"<script|<link rel=\"style|(?:src|href)=\"(?!data:)|url\(", text)
    assert "@media print" in text
    for word in ("take part more than once", "Signed"):
        assert word in text
    for word in ("dprl verify certificate.json", "numpy 2.0", "dprl 1.2.3", found["schema"]):
        assert word in text
    for channel in found["excluded_channels"]:
        assert str(escape(channel)) in text


def test_commands_name_files_beside_the_page(tmp_path: Path) -> None:
    text, _ = page("epsilon_one", -1)
    folder = CellFolder(tmp_path)
    beside = {file.name for file in (folder.certificate_file, folder.experiment_file)}
    commands = re.findall(r"<code>(dprl [a-z]+ [^<]*)</code>", text[text.index("Check it yourself") :])
    assert {command.split()[-1] for command in commands} == beside
    assert [command.split()[1] for command in commands] == ["verify", "certify", "audit"]


def test_a_certificate_that_an_audit_refutes_says_so_first() -> None:
    _, found = page("epsilon_one", -1)
    found["audit"] = {"verdict": "refuted", "contradicts_proof": True, "note": "measured more"}
    text = certificate_page(found, {}, "refuted")
    assert "An audit has measured a larger" in text


@pytest.mark.parametrize(("delta", "noted"), [(1e-6, False), (0.01, True)])
def test_a_delta_that_allows_to_publish_a_record_is_noted(delta: float, noted: bool) -> None:
    facts = certificate_facts(cell(jdp(1.0, delta=delta)).certificate().to_dict())  # 1000 episodes
    assert any(text.startswith("is above 1 / users") for name, text in facts if name == "delta") == noted
