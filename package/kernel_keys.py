"""Keys of compiled kernels: digests of all code and constants that a kernel reaches.

A kernel is compiled together with its callees. Its key covers the code of all of them, their options and defaults, and
every constant that they read, in any file. The key of a kernel that reaches a value of an unknown kind includes
`source_digest`; if one of its files is not ours, it has no key. Comments, docstrings, line numbers, folders and
functions called by their address do not affect keys.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable
from functools import cache
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, cast
from weakref import WeakKeyDictionary, WeakSet

import llvmlite
import numba
import numpy as np
from numba.core import config, types
from numba.core.dispatcher import Dispatcher
from numba.core.typing.templates import builtin_registry
from numba.extending import _Intrinsic  # type: ignore[attr-defined]

from dprl.sources import is_ours, source_digest

_LIBRARIES = frozenset({"numpy", "numba", "llvmlite"}) | sys.stdlib_module_names
_NUMBERS = (bool, int, float, complex, str, bytes, type(None), type(...))
_CALLEE = "callee "
_first_seen = WeakKeyDictionary[FunctionType, list[str]]()
_changed = WeakSet[FunctionType]()
# Raise the first number whenever kernels are compiled in another way.
_COMPILER = (4, sys.version_info[:2], numba.__version__, llvmlite.__version__, np.__version__.split(".")[:2])


def reached(function: FunctionType) -> tuple[str | None, frozenset[str]]:
    """Return the key of everything that a function reaches by the names in its code, and the symbols that it calls.

    It covers any call depth. The key is None if it cannot be determined, or if a constant has ever changed since the
    first call, because a callee may have been compiled with another value in this process.
    """
    functions, externs, unchanged = [function], set[str](), True
    digest, known = hashlib.sha256(repr(_settings()).encode()), True
    for one in functions:  # grows
        described = _Described(functions, externs)
        described.add_function(one)
        digest.update("\n".join(described.words).encode())
        known = known and described.known
        own = [word for word in described.words if not word.startswith(_CALLEE)]
        if _first_seen.setdefault(one, own) != own:
            _changed.add(one)
        unchanged = unchanged and one not in _changed
    if not known:
        digest.update(source_digest().encode())
    followed = known or all(is_ours(one.__code__.co_filename) for one in functions)
    return (digest.hexdigest() if followed and unchanged else None), frozenset(externs)


def _settings() -> tuple[object, ...]:
    """Return the versions and settings of the compiler."""
    chosen = vars(config)
    return _COMPILER, [str(chosen.get(name)) for name in ("OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "BOUNDSCHECK")]


class _Described:
    """Words that describe one function; functions that it names are added to `functions` and described by index."""

    def __init__(self, functions: list[FunctionType], externs: set[str]) -> None:
        self.words: list[str] = []
        self.known = True
        self._functions, self._externs = functions, externs

    def add_function(self, function: FunctionType) -> None:
        code = function.__code__
        self.words += [function.__module__, function.__qualname__, _code_text(code)]
        self._add(function.__defaults__)
        for name, default in sorted((function.__kwdefaults__ or {}).items()):
            self.words.append(name)
            self._add(default)
        for cell in function.__closure__ or ():
            self._add(cell.cell_contents)
        names = _names(code)
        self._add_names(names, function.__globals__)

    def _add_names(self, names: tuple[str, ...], space: dict[str, Any], within: tuple[ModuleType, ...] = ()) -> None:
        for name in names:
            if name in space and not any(space[name] is module for module in within):
                self.words.append(name)
                self._add(space[name])
                if isinstance(space[name], ModuleType) and not _of_library(space[name].__name__):
                    self._add_names(names, vars(space[name]), (*within, space[name]))

    def _add(self, value: object) -> None:
        self.words.append(f"{type(value).__module__}.{type(value).__qualname__}")
        if isinstance(value, Dispatcher):
            self.words.append(repr(sorted(value.targetoptions.items())))
            self._add_callee(value.py_func)
        elif isinstance(value, _Intrinsic):
            self._add_callee(value._defn)
        elif isinstance(value, types.ExternalFunction):
            self._externs.add(value.symbol)
            self.words += [value.symbol, str(value.sig)]
        elif isinstance(value, tuple):
            self.words.append(repr(getattr(value, "_fields", len(value))))
            self.known = self.known and (not hasattr(value, "_fields") or _importable(type(value)))
            for one in value:
                self._add(one)
        elif isinstance(value, (np.ndarray, np.generic)) and not value.dtype.hasobject:
            self.words.append(f"{value.dtype!r} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}")
        else:
            self._add_by_text(value)

    def _add_by_text(self, value: object) -> None:
        if isinstance(value, (*_NUMBERS, np.dtype, np.ufunc)):
            self.words.append(repr(value))
        elif isinstance(value, types.Type) and (text := type_text(value)) is not None:
            self.words.append(text)
        elif isinstance(value, ModuleType):
            self.words.append(value.__name__)
        elif isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields") and _importable(value):
            self.words += [f"{value.__module__}.{value.__qualname__}", repr(value._fields)]
            self._add(tuple(sorted(getattr(value, "_field_defaults", {}).items())))
        elif isinstance(value, (type, FunctionType, BuiltinFunctionType)) and _is_name(value):
            self.words.append(f"{value.__module__}.{value.__qualname__}")
        else:
            self.known = False

    def _add_callee(self, function: FunctionType) -> None:
        if function not in self._functions:
            self._functions.append(function)
        self.words.append(f"{_CALLEE}{self._functions.index(function)}")


def _is_name(value: Any) -> bool:  # noqa: ANN401 - a function or a class
    """Whether a function or class is identified by name: a library's, an exception, or unknown to the compiler."""
    if _of_library(value.__module__ or "builtins"):
        return True
    if isinstance(value, type):
        return issubclass(value, BaseException) and _importable(value)
    return id(value) not in _overloaded(len(builtin_registry.globals))


def _importable(value: type) -> bool:
    """Whether an import in another process finds the same class: not for classes of scripts, functions and classes."""
    module = value.__module__
    return module != "__main__" and getattr(sys.modules.get(module), value.__qualname__, None) is value


@cache
def _overloaded(_: int) -> frozenset[int]:
    """Return the ids of functions that Numba compiles although they are not kernels."""
    return frozenset(id(function) for function, _ in builtin_registry.globals)


def _of_library(module: str) -> bool:
    return module.partition(".")[0] in _LIBRARIES


@cache
def _code_text(code: CodeType) -> str:
    """Return the instructions, names and constants of a function, without line numbers and docstring."""
    constants = [_code_text(one) if isinstance(one, CodeType) else _constant_text(one) for one in code.co_consts]
    if code.co_consts and isinstance(code.co_consts[0], str) and not code.co_name.startswith("<"):
        constants[0] = "None"
    names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    return repr((code.co_code, code.co_exceptiontable, code.co_flags, code.co_argcount, names, constants))


def _constant_text(constant: object) -> str:
    """Return a constant of a code object as text, the same in every process."""
    if isinstance(constant, frozenset):
        return repr(sorted(map(_constant_text, constant)))
    return repr(constant)


def _names(code: CodeType) -> tuple[str, ...]:
    """Return the names that a function and the functions in it look up, sorted."""
    codes = [code]
    for one in codes:  # grows
        codes += [inner for inner in one.co_consts if isinstance(inner, CodeType)]
    return tuple(sorted({name for one in codes for name in one.co_names}))


def type_text(kind: Any) -> str | None:  # noqa: ANN401 - a type of Numba's
    """Return the text of an argument type with the fields of named tuples, None for a type without a stable text.

    Numba's own text of a named tuple has no fields, so that two orders of them would be the same type. A named tuple
    that cannot be imported has no text: a file would hold a copy of it, and read back that is another type.
    """
    if isinstance(kind, types.BaseTuple):
        parts = [type_text(one) for one in cast("Iterable[Any]", kind)]
        named = getattr(kind, "instance_class", None)
        if None in parts or (named and not _importable(named)):
            return None
        name = f"{named.__module__}.{named.__qualname__}{named._fields}" if named else type(kind).__name__
        return f"{name}({', '.join(map(str, parts))})"
    if isinstance(kind, types.Omitted):
        return f"omitted({type(kind.value).__name__} {kind.value!r})" if isinstance(kind.value, _NUMBERS) else None
    if isinstance(kind, types.Array):
        return str(kind) if isinstance(kind.dtype, types.Number | types.Boolean) else None
    plain = types.Number, types.Boolean, types.NoneType, types.RawPointer, types.ArrayCTypes, types.UnicodeType
    return f"{type(kind).__name__} {kind}" if isinstance(kind, plain) else None
