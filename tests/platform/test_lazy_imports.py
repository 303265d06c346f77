"""A command imports only the heavy libraries that it uses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.platform.processes import CONFIG

SLOW = ("torch", "ray", "mlflow", "sqlalchemy", "pandas", "matplotlib", "scipy.stats")
NO_CERTIFICATE = (*SLOW, "scipy.optimize")
"""Of commands that compute no certificate."""
REPORT = "import sys; loaded = lambda: [name for name in {} if name in sys.modules]\n"


def loaded(code: str, folder: Path, *words: str, names: tuple[str, ...] = SLOW) -> list[str]:
    """Return the words of the last line of standard error of a program that prints `loaded()` there."""
    program = [sys.executable, "-P", "-c", REPORT.format(names) + code, *words]
    done = subprocess.run(program, capture_output=True, text=True, check=True, cwd=folder)
    return done.stderr.splitlines()[-1].split()


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["--help"], NO_CERTIFICATE),
        (["list"], NO_CERTIFICATE),
        (["list", "algorithms"], NO_CERTIFICATE),
        (["new", "algorithm", "mine"], NO_CERTIFICATE),
        (["certify", "smoke"], SLOW),
    ],
)
def test_no_heavy_library_is_loaded(words: list[str], names: tuple[str, ...], tmp_path: Path) -> None:
    code = """
from dprl.platform.command_line import main
assert main(sys.argv[1:]) == 0
print("loaded:", *loaded(), file=sys.stderr)
"""
    assert loaded(code, tmp_path, *words, names=names) == ["loaded:"]


def test_verify_loads_only_what_computes_a_certificate(tmp_path: Path) -> None:
    code = """
import json
from pathlib import Path
from dprl.platform.command_line import main
from dprl.platform.commands.cells import planned_certificates
from dprl.platform.configs.config import load_cells
certificate = planned_certificates(load_cells("grid.yaml"))[1]
Path("certificate.json").write_text(json.dumps(certificate))
main(["verify", "certificate.json"])
print("loaded:", *loaded(), file=sys.stderr)
"""
    (tmp_path / "grid.yaml").write_text(yaml.safe_dump(CONFIG))
    assert loaded(code, tmp_path) == ["loaded:"]


def test_a_short_run_shows_its_table_before_mlflow_is_loaded(tmp_path: Path) -> None:
    code = """
from pathlib import Path
from dprl.platform.configs.config import load_cells
from dprl.platform.sweeps import sweep
sweep._MLFLOW_DELAY = 1000.0  # the machine may be slow
at_table = []
options = sweep.SweepOptions("grid", Path("home"), "process", None, None, False, "again", True, show=lambda summary:
    at_table.extend([len(summary), *loaded()]))
sweep.run_sweep(load_cells("grid.yaml"), options)
print("loaded:", *at_table, file=sys.stderr)
"""
    (tmp_path / "grid.yaml").write_text(yaml.safe_dump(CONFIG | {"episodes": 100}))
    names = ("mlflow", "ray", "torch", "scipy.stats")
    assert loaded(code, tmp_path, names=names) == ["loaded:", "3"]


def test_acting_by_learned_parameters_needs_neither() -> None:
    code = "import sys; import dprl.platform.policies; print('torch' in sys.modules, 'ray' in sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
