"""Errors of kernels that do not compile: one line with the place, the rule and the remedy."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from numba import NumbaError

from dprl.platform.sweeps.cell import cause_of

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
