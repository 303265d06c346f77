"""Shipped code states its dependencies, for every kind of installation of dprl."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest

from dprl.platform.submission.requirements import unmet_requirements
from dprl.platform.submission.shipping import pack

ABOUT = "Metadata-Version: 2.1\nName: dprl\nVersion: 9.9\nProvides-Extra: ray\n"
NEEDS = ["a-package-that-is-nowhere>=3", 'no-ray==1.*; extra == "ray"']
UNMET = ["a-package-that-is-nowhere>=3 (found none)", "no-ray==1.* (found none)"]


@pytest.mark.parametrize("kind", ["wheel", "egg-info"])
def test_the_dependencies_are_read_and_shipped(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = tmp_path / ("dprl-9.9.dist-info" if kind == "wheel" else "dprl.egg-info")
    installed.mkdir()
    if kind == "wheel":
        (installed / "METADATA").write_text(ABOUT + "".join(f"Requires-Dist: {need}\n" for need in NEEDS))
    else:
        (installed / "PKG-INFO").write_text(ABOUT)
        (installed / "requires.txt").write_text(f"{NEEDS[0]}\n\n[ray]\nno-ray==1.*\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert unmet_requirements() == UNMET

    (tmp_path / "into").mkdir()
    code, job = pack({"name": "try"}, tmp_path / "into")
    assert list(code.glob("platform/**/*.j2"))
    (shipped,) = importlib.metadata.distributions(path=[str(job)])
    assert (shipped.version, shipped.requires) == ("9.9", importlib.metadata.requires("dprl"))
    # On a node the job is the only metadata of dprl.
    monkeypatch.syspath_prepend(str(job))
    assert unmet_requirements() == UNMET


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
    assert {name for name in found if not name.endswith("METADATA")} == shipped
