"""Kernels are compiled before work is distributed; one that cannot be compiled fails only in its own cells."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numba
import pytest

from dprl.algorithms import ALGORITHMS
from dprl.platform.configs.experiment import Experiment
from dprl.platform.sweeps import sweep
from dprl.platform.sweeps.sweep import SweepOptions, compile_kernels, run_sweep
from dprl.privacy import GradientPrivatizer, Streams
from tests.platform.gradient_cases import NONE, Walker, WalkingConfig, cell


@dataclass(frozen=True)
class MistakenConfig(WalkingConfig):
    """Like a plugin's algorithm with a mistake in a kernel that one setting selects."""

    name: ClassVar[str] = "mistaken"
    mistake: str = ""

    def build(self, env: Any, privatizer: GradientPrivatizer, episodes: int, streams: Streams) -> Walker:
        if self.mistake == "kernel":
            numba.njit("f8(f8)")(lambda x: x + "a")
        if self.mistake == "import":
            import nowhere_at_all  # type: ignore[import-not-found]  # noqa: F401, PLC0415
        return super().build(env, privatizer, episodes, streams)


@pytest.fixture
def cells(monkeypatch: pytest.MonkeyPatch) -> list[Experiment]:
    monkeypatch.setitem(ALGORITHMS, MistakenConfig.name, MistakenConfig)
    mistakes = ("kernel", "import", "")
    return [cell(NONE, name="kinds", algorithm={"name": "mistaken", "mistake": each}) for each in mistakes]


def test_what_does_not_compile_ends_no_sweep_before_its_first_cell(cells: list[Experiment]) -> None:
    compile_kernels(cells, lambda line: None)


def test_only_compilation_is_called_so(monkeypatch: pytest.MonkeyPatch) -> None:
    said = list[str]()
    monkeypatch.setattr(sweep, "cache_is_empty", lambda: False)
    compile_kernels([], said.append)
    assert said == []
    compiled = iter([3, 4])
    monkeypatch.setattr(sweep, "cache_is_empty", lambda: True)
    monkeypatch.setattr(sweep, "compilations", lambda: next(compiled))
    compile_kernels([], said.append)
    assert said == ["compiling the learning loop (once per machine and code version) ...", "compiled in 0.0 s"]


def test_the_other_cells_of_its_sweep_run(cells: list[Experiment], tmp_path: Path) -> None:
    result = run_sweep(cells, SweepOptions("kinds", tmp_path, "process", None, None, False, "a test"))
    kernel, missing = result.failed
    assert kernel.startswith("kernel: KernelError: does not compile at test_compiling.py:")
    assert missing.startswith("import: ModuleNotFoundError: No module named 'nowhere_at_all'")
    assert result.summary["cell"].tolist() == [cells[2].digest]
