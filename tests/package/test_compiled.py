"""Compiled kernels: their cache, their contracts, and the digest of their sources."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numba import TypingError

from dprl import compiled, sources
from dprl.privacy.base import Float64Array

TOY = """
from dprl.compiled import kernel
from dprl.privacy.scale import scaled

@kernel
def raised(x):
    return scaled(x) + 1.0
"""
SCALE = """
from dprl.compiled import kernel

@kernel
def scaled(x):
    return 2.0 * x
"""
COUNTED = """
import dprl.privacy.toy as toy
print(toy.raised(3.0), sum(toy.raised.dispatcher.stats.cache_misses.values()))
"""


def printed(code: str, **environment: str) -> str:
    """Return the output of a process."""
    command = [sys.executable, "-B", "-P", "-c", code]  # byte code ignores edits within a second
    variables = {**os.environ, "DPRL_PLUGINS": "", **environment}
    if "PYTHONPATH" in environment:
        variables["PYTHONPATH"] = os.pathsep.join([environment["PYTHONPATH"], os.environ.get("PYTHONPATH", "")])
    shown = subprocess.run(command, env=variables, capture_output=True, text=True, check=False, timeout=120.0)
    assert shown.returncode == 0, shown.stderr
    return shown.stdout


def test_kernels_are_compiled_anew_if_another_file_has_changed(root: Path, tmp_path: Path) -> None:
    folder, cache = tmp_path / "dprl" / "privacy", tmp_path / "cache"
    folder.mkdir(parents=True)
    for file in (root / "package").glob("*.py"):
        shutil.copy(file, folder.parent)
    for each in (folder, folder.parent):
        (each / "__init__.py").write_text("")
    (folder / "toy.py").write_text(TOY)

    def run(scale: str) -> list[str]:
        (folder / "scale.py").write_text(SCALE.replace("2.0", scale))
        return printed(COUNTED, PYTHONPATH=str(tmp_path), NUMBA_CACHE_DIR=str(cache)).split()

    assert [run("2.0"), run("2.0"), run("4.0"), run("2.0")] == [["7.0", "1"], ["7.0", "0"], ["13.0", "1"], ["7.0", "0"]]
    for i in range(5):
        (cache / f"kernels-{i}").mkdir()
    run("5.0")
    assert len(list(cache.glob("kernels-*"))) == 8
    for folder in cache.glob("kernels-*"):
        os.utime(folder, (0.0, 0.0))
    run("5.0")
    assert len(list(cache.glob("kernels-*"))) == 5


SCRIPT = """
from dprl.compiled import kernel
@kernel
def scaled(x):
    return 2.0 * x
scaled(1.0)
print(sum(scaled.dispatcher.stats.cache_hits.values()))
"""


def test_kernels_outside_of_the_digested_files_are_never_read_from_the_disk(tmp_path: Path) -> None:
    """Numba would find them again although a file that they import has changed."""
    (tmp_path / "script.py").write_text(SCRIPT)
    for _ in range(2):
        assert printed("import script", PYTHONPATH=str(tmp_path), NUMBA_CACHE_DIR=str(tmp_path / "cache")) == "0\n"


def test_a_cache_that_cannot_be_written_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    code = "from dprl.envs.dynamics import expectation as e; from dprl import compiled; print(compiled._CACHES)"
    assert printed(code, NUMBA_CACHE_DIR=str(tmp_path / "file" / "cache")) == "False\n"


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
    # The kernels are compiled first for a caller without allocations, but must still allocate and free arrays.
    x = np.ones(4)
    before = sys.getrefcount(x)
    assert [_unallocated(x) for _ in range(100)] == [14.0] * 100
    assert sys.getrefcount(x) == before
    assert np.array_equal(_doubled(x), [2.0, 10.0, 2.0, 2.0])


@compiled.no_alloc_kernel
def _sum_of_view(x: Float64Array) -> float:
    view = compiled.read_only(x)
    total = 0.0
    for i in range(view.shape[0]):
        total += view[i]
    return total


@compiled.no_alloc_kernel
def _written_view(x: Float64Array) -> None:
    compiled.read_only(x)[0] = 1.0


def test_a_read_only_view_is_of_the_same_numbers_and_cannot_be_written_to() -> None:
    x = np.arange(3.0)
    assert _sum_of_view(x) == 3.0
    with pytest.raises((TypingError, ValueError), match=r"read-?only"):
        _written_view(x)
    assert x[0] == 0.0


@compiled.kernel
def _evens(n: int) -> Iterator[int]:
    for i in range(n):
        yield 2 * i


def test_kernels_may_yield() -> None:
    assert [list(_evens(3)) for _ in range(2)] == [[0, 2, 4]] * 2


@compiled.kernel
def _root(x: float) -> Float64Array:
    if x < 0.0:
        raise ValueError("must not be negative", x)
    return np.full(2, np.sqrt(x))


@compiled.kernel
def _sum_of_roots(x: float) -> float:
    total: float = _root(x).sum()
    return total


def test_kernels_raise_numbers_if_called_by_python_and_by_kernels() -> None:
    assert (_root(4.0).tolist(), _sum_of_roots(4.0)) == ([2.0, 2.0], 4.0)
    for function in (_root, _sum_of_roots):
        with pytest.raises(ValueError, match="must not be negative") as caught:
            function(-1.0)
        assert caught.value.args == ("must not be negative", -1.0)


def test_compilations_are_counted() -> None:
    @compiled.kernel
    def halved(x: float) -> float:
        return x / 2.0

    before = compiled.compilations()
    assert [halved(3.0), halved(5.0)] == [1.5, 2.5]
    assert compiled.compilations() == before + 1


# Results have a version, and the cache of kernels a digest of code.


@pytest.fixture
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three code folders and another with a file each."""
    for room in ("privacy", "envs", "algorithms", "platform"):
        (tmp_path / room).mkdir()
        (tmp_path / room / "base.py").write_text("x = 1\n")
    monkeypatch.setattr(sources, "_TOP", tmp_path)
    monkeypatch.setattr(sources, "plugin_sources", lambda packages=None: iter(()))
    return tmp_path


@pytest.mark.usefixtures("top")
def test_the_version_of_results_is_a_number_without_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sources.results_version.__wrapped__() == str(sources.RESULTS_VERSION)
    monkeypatch.setattr(sources, "plugin_sources", lambda packages=None: iter([("ours.py", b"x = 1")]))
    number, digest = sources.results_version.__wrapped__().split("-")
    assert (int(number), len(digest)) == (sources.RESULTS_VERSION, 16)


def test_every_byte_and_name_of_the_kernels_folders_counts_in_the_digest(top: Path) -> None:
    digest = sources.code_digest.__wrapped__
    seen = [digest()]
    for change in (
        lambda: (top / "privacy" / "base.py").write_text("x = 2\n"),
        lambda: (top / "privacy" / "base.py").rename(top / "privacy" / "other.py"),
        (top / "envs" / "new.py").touch,
        (top / "algorithms" / "base.py").unlink,
    ):
        change()
        seen.append(digest())
    assert len(set(seen)) == len(seen)
    (top / "platform" / "base.py").write_text("x = 2\n")
    assert digest() == seen[-1]


def test_files_outside_are_not_ours() -> None:
    assert not sources.is_ours("<stdin>")
    assert not sources.is_ours(__file__)
    assert not sources.is_digested(__file__)
    assert sources.is_digested(str(Path(sources.__file__).resolve().parent.parent / "privacy" / "base.py"))
