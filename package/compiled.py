"""Compilation of hot loops: one set of flags, and a cache on disk that cannot run stale noise.

Numba's cache checks the file of the called function only; a kernel that was compiled together with an earlier
`laplace.py` would still be found. So the folder of the cache is named by `code_digest`, and kernels in files that the
digest does not cover are compiled in every process.
"""

from __future__ import annotations

import inspect
import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import numba.experimental.function_type  # noqa: F401 - without it, kernels take no functions
import numpy as np
import numpy.typing as npt
from numba import cfunc, config, njit, types
from numba.extending import intrinsic, overload

from dprl.sources import cache_base, code_digest, is_digested

F = TypeVar("F", bound=Callable[..., object])
A = TypeVar("A", bound=npt.NDArray[Any])
T = TypeVar("T")

JIT_DISABLED = bool(vars(config)["DISABLE_JIT"])
"""Whether kernels run uncompiled."""
OPTIONS: dict[str, Any] = {"error_model": "numpy", "fastmath": False}
"""Strict IEEE arithmetic, so that the same source gives the same bits whatever the vector width; without the check for
divisions by zero, which would block vectorisation."""
_KEPT_FOLDERS, _KEPT_SECONDS = 5, 86400.0
_dispatchers: list[Any] = []


def _prepared_cache() -> bool:
    """Let Numba use the cache of this code, and return whether it can be written; delete old folders of other code."""
    folder = cache_base() / f"kernels-{code_digest()}"
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
    if not os.access(folder, os.W_OK):
        return False
    cast("Any", config).CACHE_DIR = str(folder)
    with suppress(OSError):  # another process tidies up as well
        known = sorted(folder.parent.glob("kernels-*"), key=lambda each: each.stat().st_mtime, reverse=True)
        for other in known[_KEPT_FOLDERS:]:
            if time.time() - other.stat().st_mtime > _KEPT_SECONDS:  # no process may still write there
                shutil.rmtree(other, ignore_errors=True)
    return True


_CACHES = not JIT_DISABLED and _prepared_cache()


def kernel(function: F) -> F:
    """Compile `function` in nopython mode with OPTIONS, cached on disk. With NUMBA_DISABLE_JIT=1 it runs as it is."""
    return _compiled(function, counted=True)


def no_alloc_kernel(function: F) -> F:
    """Compile `function` like `kernel`, but without counting references to its caller's arrays.

    It is for functions that are called in every episode with tuples of many arrays: counting took 0.9 of 2.6 us of an
    exchange. Other kernels inline them, because passing these arrays took up to half of the rest. They may index, slice
    and reshape their arguments, write there and pass them on; they must neither create nor return arrays. Only another
    no_alloc_kernel may call one that returns its arguments in a named tuple.
    """
    return _compiled(function, counted=False)


def _compiled(function: F, *, counted: bool) -> F:
    """Return a function that Python calls through Numba's dispatcher, and that kernels compile without one.

    A dispatcher unpacks its arguments, which takes most of the time to compile a short kernel of many arrays.
    """
    if JIT_DISABLED:
        return function
    # All options are explicit, because a kernel that is first compiled for a caller would inherit that one's.
    options = {**OPTIONS, "_nrt": counted, "nogil": True, "no_cfunc_wrapper": True}  # seeds of a cell learn on threads
    dispatcher: Any = cast("Any", njit)(cache=is_cached(function), **options)(function)

    _dispatchers.append(dispatcher)

    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - as the function's
        return dispatcher(*arguments, **named)

    within: Any = {**options, "no_cpython_wrapper": True, "forceinline": not counted}
    overload(call, jit_options=within, strict=False)(lambda *_, **__: function)
    cast("Any", call).py_func, cast("Any", call).dispatcher = function, dispatcher
    return cast("F", call)


def is_cached(function: Callable[..., object]) -> bool:
    """Whether a compiled function, with the kernels that it names, is found again on the disk by another process."""
    named = inspect.getclosurevars(function)
    called = [getattr(each, "py_func", None) for each in (*named.globals.values(), *named.nonlocals.values())]
    files = {each.__code__.co_filename for each in (function, *called) if each is not None}
    return _CACHES and all(map(is_digested, files))


class _Addressed(types.WrapperAddressProtocol):
    """See `with_address`."""

    def __init__(self, function: Callable[..., object], signature: Any) -> None:  # noqa: ANN401 - a type of Numba's
        self._function, self._signature = function, signature

    @cached_property
    def _compiled(self) -> Any:  # noqa: ANN401 - a type of Numba's
        return cfunc(self._signature, cache=is_cached(self._function), **OPTIONS)(self._function)

    def __wrapper_address__(self) -> int:
        return int(self._compiled.address)

    def signature(self) -> Any:  # noqa: ANN401 - a type of Numba's
        return self._signature


def with_address(function: F, signature: Any) -> F:  # noqa: ANN401 - a type of Numba's
    """Return a plain function as a value for kernels, which call it by its address; it is compiled with the first.

    So kernels are compiled once for all functions of a signature, and a run compiles those that it calls. Python calls
    it uncompiled, and only with NUMBA_DISABLE_JIT=1.
    """
    return function if JIT_DISABLED else cast("F", _Addressed(function, signature))


def compilations() -> int:
    """Return how often this process has compiled a kernel for Python, instead of reading it from the disk."""
    return sum(sum(each.stats.cache_misses.values()) for each in _dispatchers)


def cache_is_empty() -> bool:
    """Whether the disk has no kernel of this code yet."""
    return not _CACHES or next(Path(vars(config)["CACHE_DIR"]).rglob("*.nbi"), None) is None


def shows_numbers(record: type[T]) -> type[T]:
    """Let a NamedTuple's repr show single numbers alone: arrays hold noise and users' data, which no log may have."""

    def shown(self: NamedTuple) -> str:
        numbers = [f"{name}={value}" for name, value in self._asdict().items() if isinstance(value, int | float)]
        return f"{record.__name__}({', '.join(numbers)})"

    record.__repr__ = shown  # type: ignore[method-assign,assignment]
    return record


def _retyped(_: object, array: Any) -> tuple[Any, Callable[..., Any]]:  # noqa: ANN401 - a type of Numba's
    """Compile to nothing: the same array, of a type that cannot be written to."""
    kind = array.copy(readonly=True)

    def generate(context: Any, build: Any, _: Any, arrays: Any) -> Any:  # noqa: ANN401
        if context.enable_nrt:
            context.nrt.incref(build, kind, arrays[0])
        return arrays[0]

    return kind(array), generate


_view = (lambda array: np.broadcast_to(array, array.shape)) if JIT_DISABLED else cast("Any", intrinsic)(_retyped)
read_only = cast("Callable[[A], A]", _view)
"""Return a view of an array that kernels cannot write to by accident. Numba hands Python the array itself."""
