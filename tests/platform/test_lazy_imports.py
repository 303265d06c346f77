"""Commands that only read configs do not import torch, Ray, MLflow or pandas."""

from __future__ import annotations

import subprocess
import sys

import pytest

SLOW = ("torch", "ray", "mlflow", "pandas", "matplotlib")


@pytest.mark.parametrize("words", [["--help"], ["list"], ["certify", "smoke"]], ids=" ".join)
def test_no_heavy_library_is_loaded(words: list[str]) -> None:
    code = (
        "import sys\n"
        "from dprl.platform.command_line import main\n"
        f"assert main({words!r}) == 0\n"
        f"print('loaded:', *(name for name in {SLOW!r} if name in sys.modules), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "loaded:"


def test_acting_by_learned_parameters_needs_neither() -> None:
    code = "import sys; import dprl.platform.policies; print('torch' in sys.modules, 'ray' in sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
