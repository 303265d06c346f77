"""Kernels are compiled before work is distributed; one that does not compile fails its own cells, in one line."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numba
import numpy as np
import pytest
from numba import NumbaError

from dprl.algorithms import ALGORITHMS
from dprl.platform.configs.experiment import Experiment
from dprl.platform.sweeps import sweep
from dprl.platform.sweeps.cell import cause_of
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


SOURCE = """\
import numpy as np
from dprl.compiled import kernel, no_alloc_kernel


@no_alloc_kernel
def makes_an_array(x):
    return np.zeros(3)[0] + x[0]


@no_alloc_kernel
def makes_a_list(x):
    return len([v for v in x])


@kernel
def has_a_wrong_attribute(x):
    return x.foo(3)


@kernel
def names_nothing(x):
    return undefined_thing(x)
"""


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("makes_an_array", "KernelError: does not compile at mine.py:7: "),
        ("makes_a_list", "KernelError: does not compile at mine.py:12: "),
        ("has_a_wrong_attribute", "KernelError: does not compile at mine.py:17: Unknown attribute 'foo' of type array"),
        ("names_nothing", "KernelError: does not compile: NameError: name 'undefined_thing' is not defined; write it "),
    ],
)
def test_a_kernel_that_does_not_compile_is_told_in_one_line(name: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("mine", tmp_path / "mine.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with pytest.raises(NumbaError) as caught:
        getattr(module, name)(np.zeros(3))
    found = cause_of(caught.value)
    assert found.startswith(told)
    assert "\n" not in found
    assert "nopython" not in found
