"""Numba's types of a kernel's arguments, each made once: it makes those of all arrays of a tuple anew in every call.

That took a third of the tests' processor time, because tests call kernels for one user or episode at a time.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numba import types
from numba.experimental.function_type import typeof_function_type
from numba.extending import typeof_impl

_of_array, _of_tuple = typeof_impl.dispatch(np.ndarray), typeof_impl.dispatch(tuple)
_arrays: dict[Any, Any] = {}
_tuples: dict[Any, Any] = {}
_functions: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()


def _array(array: np.ndarray, context: object) -> Any:
    """Return Numba's type of an array, which is a function of the key."""
    flags = array.flags
    key = type(array), array.dtype, array.ndim, flags.c_contiguous, flags.f_contiguous, flags.writeable
    if key not in _arrays:
        _arrays[key] = _of_array(array, context)
    return _arrays[key]


def _tuple(values: tuple[Any, ...], context: object) -> Any:
    """Return Numba's type of a tuple, by those of its items: equal types are one object, which lives on here."""
    parts = [typeof_impl(value, context) for value in values]
    key = type(values), *map(id, parts)
    if key not in _tuples:
        _tuples[key] = _of_tuple(values, context), parts
    return _tuples[key][0]


def _function(function: Any, context: object) -> Any:
    if function not in _functions:
        _functions[function] = typeof_function_type(function, context)
    return _functions[function]


def keep_argument_types() -> None:
    """Let Numba look arrays, tuples and functions with an address up here. Kernels and their types stay the same."""
    for kind, look_up in ((np.ndarray, _array), (tuple, _tuple), (types.WrapperAddressProtocol, _function)):
        typeof_impl.register(kind, look_up)
