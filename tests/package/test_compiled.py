"""The kernel cache cannot serve machine code of other sources."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from ctypes import c_int64
from pathlib import Path

import numba
import numpy as np
import pytest
from numba.core import errors, event

from dprl import compiled, kernel_cache
from dprl.privacy.base import Float64Array

TOY = """
from typing import NamedTuple
from dprl.compiled import kernel, extern_kernel
# A comment.
class Pair(NamedTuple):
    one: float
    other: float

@extern_kernel("float64(float64)")
def _scaled(x):
    "A docstring."
    return SCALE * x

SCALE = 2.0

@kernel
def scaled(x):
    "A docstring."
    return _scaled(x) + 1.0

@kernel
def difference(pair):
    return pair.one - pair.other
"""
COUNTED = """
import numpy as np
import dprl.compiled as compiled, dprl.privacy.toy as toy
values = toy.scaled(3.0), toy.difference(toy.Pair(one=5.0, other=1.0))
anew = [sum(one.stats.cache_misses.values()) for one in (toy.scaled, toy.difference)]
print(*values, *anew, sum(1 - one.cache_hits for one in compiled._compiled_extern))
"""


def test_kernels_are_compiled_anew_for_changed_code_only(root: Path, tmp_path: Path) -> None:
    """Docstrings, comments, line numbers and functions called by address do not count as changes."""
    toy = tmp_path / "dprl" / "privacy" / "toy.py"
    toy.parent.mkdir(parents=True)
    for file in (root / "package").glob("*.py"):
        shutil.copy(file, toy.parent.parent)
    for folder in (toy.parent, toy.parent.parent):
        (folder / "__init__.py").write_text("")

    def run(source: str) -> list[str]:
        toy.write_text(source)
        paths = {"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "DPRL_PLUGINS": ""}
        command = [sys.executable, "-B", "-P", "-c", COUNTED]  # byte code ignores edits within a second
        shown = subprocess.run(command, env={**os.environ, **paths}, capture_output=True, text=True, check=False)
        assert shown.returncode == 0, shown.stderr
        return shown.stdout.split()

    assert run(TOY) == ["7.0", "4.0", "1", "1", "1"]
    better = TOY.replace("# A comment.", "# Another,\n# of two lines.").replace('"A docstring."', "'A better one.'")
    assert run(better) == ["7.0", "4.0", "0", "0", "0"]
    assert run(better.replace("SCALE = 2.0", "SCALE = 4.0")) == ["13.0", "4.0", "0", "0", "1"]
    swapped = TOY.replace("one: float", "tmp: float").replace("other: float", "one: float")
    assert run(swapped.replace("tmp: float", "other: float")) == ["7.0", "4.0", "0", "1", "0"]
    assert run(TOY) == ["7.0", "4.0", "0", "0", "0"]


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


class _Passes(event.Listener):
    """Names of functions whose types are inferred meanwhile, and whether garbage is collected then."""

    def __init__(self) -> None:
        self.names, self.collecting = list[str](), set[bool]()

    def on_start(self, event: event.Event) -> None:
        if event.data["name"].startswith("nopython_type_inference"):
            self.names.append(event.data["qualname"].split(".")[-1].split("-")[0])
            self.collecting.add(gc.isenabled())

    def on_end(self, event: event.Event) -> None:
        pass


@pytest.mark.parametrize("collecting", [True, False])
def test_what_python_and_kernels_call_is_compiled_once_without_collecting_garbage(
    collecting: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(kernel_cache, "kernel_folder", lambda: tmp_path)

    @compiled.kernel
    def halved(x: float) -> float:
        return x / 2.0

    @compiled.kernel
    def quartered(x: float) -> float:
        return halved(halved(x))

    passes = _Passes()
    try:
        if not collecting:
            gc.disable()
        with event.install_listener("numba:run_pass", passes):
            assert (halved(3.0), quartered(3.0), halved(5.0)) == (1.5, 0.75, 2.5)
        assert gc.isenabled() == collecting  # as before
    finally:
        gc.enable()
    assert passes.names == ["halved", "quartered"]
    assert passes.collecting == {False}


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
    with pytest.raises((errors.TypingError, ValueError), match=r"read-?only"):
        _written_view(x)
    assert x[0] == 0.0


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
print(" ".join(name.split(".")[-1] for name in _waiting))
"""


@pytest.mark.slow
def test_extern_kernels_are_compiled_for_those_who_call_them(tmp_path: Path) -> None:
    """They are also loaded from disk at once, because a kernel on disk may call them."""

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
    for _ in range(2):  # compiled, then from the disk
        assert left("bits") == everything - {"_generate"}
        assert left("noise") == everything - {"_generate", "_filled_1"}


FACTORY = """
from dprl.compiled import kernel

def made(weight):
    @kernel
    def weighted(x):
        total = 0.0
        for i in range(x.shape[0]):
            total += x[i] * weight
        return total
    return weighted

one, two = made(1.0), made(2.0)

@kernel
def first(x):
    return one(x)

@kernel
def second(x):
    return two(x)
"""
CALLS = "factory.first(x)", "factory.second(x)", "factory.first(x) + 10.0 * factory.second(x)"


def printed(code: str, folder: Path) -> str:
    """Return the output of a process with the kernels and modules of a folder."""
    shown = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "NUMBA_CACHE_DIR": str(folder), "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=True,
        timeout=120.0,
    )
    return shown.stdout


def test_functions_of_one_name_stay_apart_in_files_of_several_processes(tmp_path: Path) -> None:
    """Numba's symbol numbers start again in each process."""
    (tmp_path / "factory.py").write_text(FACTORY)
    values = []
    for call in CALLS:
        code = f"import factory, numpy as np\n@factory.kernel\ndef called(x): return {call}\nprint(called(np.ones(3)))"
        values.append(float(printed(code, tmp_path)))
    assert values == [3.0, 6.0, 63.0]


@compiled.kernel
def _factorial(n: int) -> int:
    return 1 if n <= 1 else n * _factorial(n - 1)


@compiled.kernel
def _evens(n: int) -> Iterator[int]:
    for i in range(n):
        yield 2 * i


def test_kernels_may_call_themselves_and_yield() -> None:
    for _ in range(2):
        assert (_factorial(5), list(_evens(3))) == (120, [0, 2, 4])


def _sum_of_two(x: int, y: int) -> int:
    return x + y


def test_numbers_beyond_a_table_call_nothing_whatever_lies_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class _Followed:
        """Makes tables that are followed by one more number in memory."""

        def __mul__(self, size: int) -> Callable[[], object]:
            return c_int64 * (size + 1)

    monkeypatch.setattr(compiled, "c_int64", _Followed())
    table = compiled.JumpTable("dprl.test_of_four", "int64(int64, int64)", place=0, size=4)
    table.add(3, _sum_of_two)
    entry = table.call
    call = numba.njit(lambda number: entry(number, 5))
    assert [call(number) for number in range(5)] == [0] * 5
    table.prepare(3)
    table._addresses[4] = table._addresses[3]
    assert [call(number) for number in (0, 3, 4, -1)] == [0, 8, 0, 0]


RESTORED = """
import numpy as np
from dprl.compiled import kernel

SCALE = 2.0

@kernel
def scaled(x):
    return SCALE * x

@kernel
def called(x):
    return scaled(x) + 1.0
"""


def test_a_constant_that_was_changed_and_restored_leaves_no_wrong_code_on_disk(tmp_path: Path) -> None:
    (tmp_path / "restored.py").write_text(RESTORED)
    changed = "import restored as m\nm.scaled(1.0)\nm.SCALE = 4.0\nm.scaled(1)\nm.SCALE = 2.0\nm.called(3)"
    printed(changed, tmp_path)
    assert printed("import restored as m\nprint(m.called(3))", tmp_path) == "7.0\n"


SCRIPT = """
from typing import NamedTuple
from dprl.compiled import kernel

class Pair(NamedTuple):
    one: float
    other: float

@kernel
def difference(pair):
    return pair.one - pair.other

ONE = Pair(1.0, 0.0)

@kernel
def constant():
    return ONE

class Bad(Exception):
    pass

@kernel
def total(pair):
    if pair.one < 0.0:
        raise Bad
    return difference(pair) + ADDED * constant().one

print(total(Pair(5.0, 1.0)), type(constant()) is Pair)
try:
    total(Pair(-1.0, 0.0))
except Bad:
    print("caught")
"""


def test_a_changed_script_runs_although_kernels_of_its_earlier_version_are_on_disk(tmp_path: Path) -> None:
    """A file would hold copies of a script's classes, and a kernel compiled anew would refuse a copied named tuple."""
    outputs = [printed(SCRIPT.replace("ADDED", added), tmp_path) for added in ("1.0", "2.0", "2.0")]
    assert outputs == [f"{total} True\ncaught\n" for total in (5.0, 6.0, 6.0)]


TALKING = """
import numpy as np
from dprl.compiled import kernel

@kernel
def root(x):
    if x < 0.0:
        raise ValueError("must not be negative", x)
    print("root of", x)
    return np.full(2, np.sqrt(x))

@kernel
def sum_of_roots(x):
    return root(x).sum()

def shown(function, x):
    try:
        print(function(x))
    except ValueError as error:
        print(error.args)
"""


@pytest.mark.parametrize("first", ["root", "sum_of_roots"])
def test_kernels_print_and_raise_numbers_if_called_by_python_and_by_kernels(tmp_path: Path, first: str) -> None:
    (tmp_path / "talking.py").write_text(TALKING)
    of = {"root": "root of 4.0\n[2. 2.]\n", "sum_of_roots": "root of 4.0\n4.0\n"}
    order = sorted(of, key=lambda name: name != first)
    calls = "".join(f"shown({name}, 4.0)\nshown({name}, -1.0)\n" for name in order)
    for _ in range(2):  # compiled, then from the disk
        found = printed(f"from talking import *\n{calls}", tmp_path)
        assert found == "".join(of[name] + "('must not be negative', -1.0)\n" for name in order)
