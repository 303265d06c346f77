"""A kernel's key changes with all code that it is compiled with, and with nothing else."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba import typeof
from numba.core.dispatcher import Dispatcher

import dprl.algorithms  # noqa: F401 - all kernels
from dprl import kernel_keys
from dprl.envs.dynamics import roll_out
from dprl.kernel_keys import reached, type_text

BASE = """
from typing import NamedTuple
import numpy as np
from numba import types
from numba.extending import intrinsic
from dprl.compiled import extern_kernel, kernel, no_alloc_kernel
SCALE = 2.0
TABLE = np.arange(3)
class Noise(NamedTuple):
    law: int
    scale: float = 1.0
@kernel
def part(x):
    "Docstring."
    return SCALE * x
@kernel
def looked_up(i):
    return TABLE[i]
@intrinsic
def twice(typing, x):
    def codegen(context, builder, signature, arguments):
        return builder.add(arguments[0], arguments[0])
    return types.int64(types.int64), codegen
@extern_kernel("int64(int64)")
def sample(x):
    return x + 3
"""
MIDDLE = """
import dprl.toy_base as base
from dprl.compiled import kernel
def make(factor):
    @kernel
    def scaled(x):
        return factor * base.part(x)
    return scaled
scaled = make(5.0)
"""
TOP = """
from dprl.compiled import kernel
from dprl.toy_base import Noise, sample, twice
from dprl.toy_middle import scaled
@kernel
def outer(x):
    return scaled(x) + 1.0
@kernel
def noisy(x):
    return Noise(1, x).scale
@kernel
def doubled(x):
    return twice(x)
@kernel
def sampled(x):
    return sample(x)
@kernel
def listed(x):
    return len([("one", i) for i in range(x)])
@kernel
def alone(x, y=7):
    return x in (1, 2) or x > y
"""
SOURCES = {"dprl.toy_base": BASE, "dprl.toy_middle": MIDDLE, "dprl.toy_top": TOP}
CHANGES = {
    "constant": ("SCALE = 2.0", "SCALE = 3.0", "part scaled outer"),
    "type of a constant": ("SCALE = 2.0", "SCALE = 2", "part scaled outer"),
    "array": ("np.arange(3)", "np.arange(4)", "looked_up"),
    "type of an array": ("np.arange(3)", "np.arange(3.0)", "looked_up"),
    "callee two files away": ("SCALE * x", "SCALE / x", "part scaled outer"),
    "options of a callee": ("@kernel\ndef part", "@no_alloc_kernel\ndef part", "scaled outer"),
    "variable of a closure": ("make(5.0)", "make(6.0)", "scaled outer"),
    "order of fields": ("law: int\n    scale: float = 1.0", "scale: float\n    law: int = 1", "noisy"),
    "default of a field": ("scale: float = 1.0", "scale: float = 2.0", "noisy"),
    "intrinsic": ("builder.add", "builder.mul", "doubled"),
    "code behind an address": ("x + 3", "x + 4", "sample"),
    "signature of an address": ('"int64(int64)"', '"int64(float64)"', "sampled"),
    "default of an argument": ("y=7", "y=8", "alone"),
    "first text in a comprehension": ('"one"', '"two"', "listed"),
    "constant in the code": ("(1, 2)", "(1, 3)", "alone"),
    "docstring": ("Docstring.", "Other.", ""),
    "comment": ("def part", "# comment\ndef part", ""),
}


def _keys(monkeypatch: pytest.MonkeyPatch, old: str = "", new: str = "") -> dict[str, str | None]:
    """Return the keys of all kernels of three modules, of which nothing is compiled."""
    waiting: dict[str, Any] = {}
    found: dict[str, Any] = {}
    monkeypatch.setattr("dprl.compiled._waiting", waiting)
    for name, source in SOURCES.items():
        module = ModuleType(name)
        monkeypatch.setitem(sys.modules, name, module)
        if "." in name:  # `import a.b as c` reads the attribute
            monkeypatch.setattr(sys.modules["dprl"], name.partition(".")[2], module, raising=False)
        exec(compile(source.replace(old, new) if old else source, name, "exec"), vars(module))
        found |= {key: one.py_func for key, one in vars(module).items() if isinstance(one, Dispatcher)}
    found["sample"] = waiting["dprl.toy_base.sample"].function
    return {name: reached(function)[0] for name, function in found.items()}


@pytest.mark.parametrize("change", CHANGES)
def test_a_key_changes_with_what_its_kernel_reaches(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new, expected = CHANGES[change]
    before = _keys(monkeypatch)
    after = _keys(monkeypatch, old, new)
    assert None not in before.values()
    assert {name for name in before if before[name] != after[name]} == set(expected.split())


class _Unknown:
    pass


UNKNOWN: Any = _Unknown()


def _uses_unknown(x: int) -> Any:
    return x if UNKNOWN else None


def test_what_is_unknown_counts_by_all_sources_or_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reached(_uses_unknown)[0] is None  # type: ignore[arg-type]
    monkeypatch.setattr(kernel_keys, "is_ours", lambda file: True)
    keys = set()
    for digest in ("one", "other"):
        monkeypatch.setattr(kernel_keys, "source_digest", lambda digest=digest: digest)
        keys.add(reached(_uses_unknown)[0])  # type: ignore[arg-type]
    assert len(keys) == 2
    assert None not in keys


SIZE = 1


def _uses_size(x: int) -> int:
    return x + SIZE


def test_code_with_a_constant_replaced_in_this_process_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A callee compiled before still has the old constant; one compiled meanwhile has the replacement for good."""
    assert reached(_uses_size)[0]  # type: ignore[arg-type]
    monkeypatch.setattr(sys.modules[__name__], "SIZE", 2)
    assert reached(_uses_size)[0] is None  # type: ignore[arg-type]
    monkeypatch.undo()
    assert reached(_uses_size)[0] is None  # type: ignore[arg-type]


def _kernels() -> dict[str, Any]:
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("dprl.")]
    named = {f"{module.__name__}.{name}": one for module in modules for name, one in vars(module).items()}
    return {name: one.py_func for name, one in named.items() if isinstance(one, Dispatcher)}


def test_all_kernels_of_the_project_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> str:
        raise AssertionError

    monkeypatch.setattr(kernel_keys, "source_digest", fail)
    kernels = _kernels()
    assert len(kernels) > 200
    for function in kernels.values():
        assert reached(function)[0]


def _pair(*fields: str) -> Any:
    return NamedTuple("_Pair", [(name, float) for name in fields])


def test_types_are_told_by_the_fields_of_named_tuples(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds, texts = [], []
    for fields in ("ab", "ba"):
        pair = _pair(*fields)
        kinds.append(typeof(pair(1.0, 2.0)))
        assert type_text(kinds[-1]) is None  # nobody can import it
        monkeypatch.setattr(sys.modules[__name__], "_Pair", pair, raising=False)
        texts.append(type_text(kinds[-1]))
    assert str(kinds[0]) == str(kinds[1])
    assert None not in texts
    assert texts[0] != texts[1]
    kinds = [typeof(one) for one in (1, 1.0, True, None, (1, 2), (1, 2.0))]
    kinds += [typeof(one) for one in (np.zeros(2), np.zeros((2, 2)), np.zeros((2, 2)).T, np.zeros(2, "f4"))]
    texts = [type_text(kind) for kind in kinds]
    assert len(set(texts) - {None}) == len(kinds)
    assert type_text(typeof(roll_out)) is None  # its text is an address
