"""The kernel cache cannot serve machine code of other sources."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dprl import compiled
from dprl.privacy.base import Float64Array


def test_old_caches_are_dropped_and_foreign_files_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    (tmp_path / "mine").mkdir()
    for i in range(12):
        (tmp_path / f"kernels-{i}").mkdir()
    compiled.prepared_folder.cache_clear()
    try:
        assert Path(compiled.prepared_folder()) == compiled.cache_folder()
    finally:
        compiled.prepared_folder.cache_clear()
    assert compiled.cache_folder().is_dir()
    assert len(list(tmp_path.glob("kernels-*"))) == 6
    assert (tmp_path / "mine").is_dir()


def test_a_cache_that_cannot_be_written_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file"))
    compiled.prepared_folder.cache_clear()
    try:
        folder = Path(compiled.prepared_folder())
    finally:
        compiled.prepared_folder.cache_clear()
    assert folder.is_dir()
    folder.rmdir()


TOY = """
from dprl.compiled import kernel, extern_kernel
# A comment.
@extern_kernel("float64(float64)")
def _scaled(x):
    "A docstring."
    return SCALE * x

SCALE = 2.0

@kernel
def scaled(x):
    "A docstring."
    return _scaled(x) + 1.0
"""
COUNTED = """
import dprl.compiled as compiled, dprl.privacy.toy as toy
value = toy.scaled(3.0)
compiled_anew = sum(toy.scaled.stats.cache_misses.values())
extern_anew = sum(1 - one.cache_hits for one in compiled._compiled_extern)
print(compiled.source_digest(), value, compiled_anew, extern_anew)
"""


def test_kernels_are_compiled_anew_for_changed_code_only(root: Path, tmp_path: Path) -> None:
    """Neither for a changed docstring, comment or line number; a function called by its address counts as well."""
    toy = tmp_path / "dprl" / "privacy" / "toy.py"
    toy.parent.mkdir(parents=True)
    for name in ("compiled", "sources", "plugins"):
        shutil.copy(root / "package" / f"{name}.py", toy.parent.parent)
    for folder in (toy.parent, toy.parent.parent):
        (folder / "__init__.py").touch()

    def run(source: str) -> list[str]:
        toy.write_text(source)
        paths = {"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "DPRL_PLUGINS": ""}
        command = [sys.executable, "-B", "-P", "-c", COUNTED]  # byte code knows a source by its size and second
        shown = subprocess.run(command, env={**os.environ, **paths}, capture_output=True, text=True, check=False)
        assert shown.returncode == 0, shown.stderr
        return shown.stdout.split()

    digest, *first = run(TOY)
    assert first == ["7.0", "1", "1"]
    better = TOY.replace("# A comment.", "# Another,\n# of two lines.").replace('"A docstring."', "'A better one.'")
    assert run(better) == [digest, "7.0", "0", "0"]
    other, *changed = run(better.replace("SCALE = 2.0", "SCALE = 4.0"))
    assert other != digest
    assert changed == ["13.0", "1", "1"]
    assert run(TOY) == [digest, "7.0", "0", "0"]


@compiled.kernel
def _doubled(x: Float64Array) -> Float64Array:
    return x + x


@compiled.kernel
def _sum_of_doubled(x: Float64Array) -> float:
    total = 0.0
    for y in _doubled(x):
        total += y
    return total


@compiled.no_alloc_kernel
def _unallocated(x: Float64Array) -> float:
    part = x[1:]
    part[0] = 5.0
    found: float = _sum_of_doubled(part)
    return found


def test_no_alloc_kernels_change_nothing_for_what_they_call_and_keep_the_references() -> None:
    # The kernels are compiled for the caller without allocations first: they must make and free arrays all the same.
    x = np.ones(4)
    before = sys.getrefcount(x)
    assert [_unallocated(x) for _ in range(100)] == [14.0] * 100
    assert sys.getrefcount(x) == before
    assert np.array_equal(_doubled(x), [2.0, 10.0, 2.0, 2.0])


EXTERN = """
import sys
import numpy as np
from dprl.privacy import Streams
from dprl.compiled import _waiting
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.mechanisms.sampling import fill_noise
from dprl.privacy.mechanisms.random_sign_kernels import random_sign_workspace
from dprl.privacy.randomness.bits import fill_bits

if sys.argv[1] == "bits":
    fill_bits(np.empty(3, dtype=np.uint64), Streams(1, "shared").key("user_noise"), np.uint64(0))
if sys.argv[1] == "noise":
    fill_noise(np.empty(3), Laplace(1.0).noise(Streams(1, "shared").key("user_noise")), np.uint64(0))
if sys.argv[1] == "no bits":
    random_sign_workspace(3, 1)
print(" ".join(name.split(".")[-2] for name in _waiting))
"""


@pytest.mark.slow
def test_extern_kernels_are_compiled_for_those_who_call_them(tmp_path: Path) -> None:
    """Also those on disk are there at once: a kernel on disk may call them."""

    def left(what: str) -> set[str]:
        shown = subprocess.run(
            [sys.executable, "-P", "-c", EXTERN, what],
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        return set(shown.stdout.split())

    everything = left("nothing")
    assert {"_generate", "_send_direction", "_send_signs"} <= everything
    assert left("no bits") == everything
    assert left("bits") == left("no bits") == everything - {"_generate"}
    assert left("noise") == everything - {"_generate", "_filled_1"}
    # Numba's files are those of one checkout, and the folder that of all with the same sources.
    for file in [*tmp_path.rglob("*.nbi"), *tmp_path.rglob("*.nbc")]:
        file.unlink()
    assert left("noise") == left("no bits") == everything - {"_generate", "_filled_1"}
