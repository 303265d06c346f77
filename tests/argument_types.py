"""Numba's types of a kernel's arguments, each made once: it makes those of all arrays of a tuple anew in every call.

That took a third of the tests' processor time, because tests call kernels for one user or episode at a time. With this
module Numba looks types of arrays, tuples and functions with an address up here; kernels and their types are the same.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numba import types
from numba.experimental.function_type import typeof_function_type
from numba.extending import typeof_impl

_of_array, _of_tuple = typeof_impl.dispatch(np.ndarray), typeof_impl.dispatch(tuple)
_arrays, _tuples, _functions = dict[Any, Any](), dict[Any, Any](), WeakKeyDictionary[Any, Any]()


def _array(array: np.ndarray, context: object) -> Any:
    flags = array.flags
    key = type(array), array.dtype, array.ndim, flags.c_contiguous, flags.f_contiguous, flags.writeable
    if key not in _arrays:
        _arrays[key] = _of_array(array, context)
    return _arrays[key]


def _tuple(values: tuple[Any, ...], context: object) -> Any:
    """Return the type by those of the items: equal types are one object, which lives on here."""
    parts = [typeof_impl(value, context) for value in values]
    key = type(values), *map(id, parts)
    if key not in _tuples:
        _tuples[key] = _of_tuple(values, context), parts
    return _tuples[key][0]


def _function(function: Any, context: object) -> Any:
    if function not in _functions:
        _functions[function] = typeof_function_type(function, context)
    return _functions[function]


for _kind, _look_up in ((np.ndarray, _array), (tuple, _tuple), (types.WrapperAddressProtocol, _function)):
    typeof_impl.register(_kind, _look_up)
