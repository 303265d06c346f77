"""Modules of environments travel with a job."""

from __future__ import annotations

from pathlib import Path

import pytest

from dprl.platform.submission.shipping import pack


def test_the_module_of_an_environment_is_shipped_with_its_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, into = tmp_path / "here", tmp_path / "into"
    (here / "pay_parts").mkdir(parents=True)
    into.mkdir()
    (here / "pay_env.py").write_text("import json\nimport numpy\nimport no_such\nfrom pay_parts import table\n")
    (here / "pay_parts" / "__init__.py").write_text("def table():\n    import pay_env\n    import dprl\n")
    (here / "pay_parts" / "table.csv").write_text("1\n")
    monkeypatch.syspath_prepend(str(here))
    _, job = pack({"name": "try"}, into, ["pay_env", "", "gymnasium.envs"])
    found = {file.relative_to(job).as_posix() for file in job.rglob("*") if file.is_file()}
    shipped = {"config.yaml", "pay_env.py", "pay_parts/__init__.py", "pay_parts/table.csv"}
    assert found == shipped
