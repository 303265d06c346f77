"""Compilation of hot loops: one set of flags, and an on-disk cache that cannot run stale noise.

Numba's own cache checks only the file of the called function; a kernel that was compiled together with an older
`laplace.py` would still be found. Here a file's name is a digest of all code that the kernel reaches
(`kernel_keys.py`), so any change of it causes a new compilation, except for comments, docstrings and layout.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from ctypes import addressof, c_int64
from functools import cache
from typing import Any, NamedTuple, TypeVar, cast

import llvmlite.binding as llvm
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import njit
from numba.core import config, event, sigutils, types
from numba.core.ccallback import CFunc
from numba.core.compiler_lock import global_compiler_lock
from numba.core.imputils import impl_ret_borrowed
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from dprl.kernel_cache import linked_kernel, set_cache, uncollected, use_linked_code

F = TypeVar("F", bound=Callable[..., object])
A = TypeVar("A", bound=npt.NDArray[Any])
T = TypeVar("T")

JIT_DISABLED = bool(vars(config)["DISABLE_JIT"])
"""Whether kernels run uncompiled."""


def kernel(function: F) -> F:
    """Compile `function` in nopython mode, strict IEEE arithmetic, cached on disk under a digest of its code.

    `error_model="numpy"` removes the zero-division check that would block vectorisation; `fastmath` stays off, so
    that the same source gives the same bits whatever the vector width. With NUMBA_DISABLE_JIT=1 the plain function
    runs, which is the reference in tests.
    """
    return _compiled(function, counted=True)


def no_alloc_kernel(function: F) -> F:
    """Compile `function` like `kernel`, but without counting references to its caller's arrays.

    It is for functions that are called in every episode with tuples of many arrays: counting took 0.9 of 2.6 us of an
    exchange. They may index, slice and reshape their arguments, write there and pass them on; they must neither create
    nor return arrays. Only another no_alloc_kernel may call one that returns its arguments in a named tuple.
    """
    return _compiled(function, counted=False)


@contextmanager
def on_compilation(call: Callable[[], object]) -> Iterator[None]:
    """Call `call` whenever Numba starts to compile a function within the context, and does not find it on the disk."""

    class Started(event.Listener):
        def on_start(self, _: event.Event) -> None:
            call()

        def on_end(self, _: event.Event) -> None:
            pass

    with event.install_listener("numba:compile", Started()):
        yield


def shows_numbers(record: type[T]) -> type[T]:
    """Let a NamedTuple's repr show single numbers alone: arrays hold noise and users' data, which no log may have."""

    def shown(self: NamedTuple) -> str:
        numbers = [f"{name}={value}" for name, value in self._asdict().items() if isinstance(value, int | float)]
        return f"{record.__name__}({', '.join(numbers)})"

    record.__repr__ = shown  # type: ignore[method-assign,assignment]
    return record


def _retyped(_: object, array: Any) -> tuple[Signature, Callable[..., Any]]:  # noqa: ANN401 - a type of Numba's
    """Compile to nothing: the same array, of a type that cannot be written to."""
    kind = array.copy(readonly=True)
    return kind(array), lambda context, build, _, arrays: impl_ret_borrowed(context, build, kind, arrays[0])


_view = (lambda array: np.broadcast_to(array, array.shape)) if JIT_DISABLED else cast("Any", intrinsic)(_retyped)
read_only = cast("Callable[[A], A]", _view)
"""Return a view of an array that kernels cannot write to by accident. Numba hands Python the array itself."""


def extern_kernel(signature: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Compile `function` once for all kernels, which call it by its address.

    Other functions are optimised again for every kernel that calls them, which takes many seconds for the samplers
    alone. The function takes numbers and pointers, raises nothing, and can be called in kernels only; with
    NUMBA_DISABLE_JIT=1 there are no pointers, and callers use the plain function.

    signature: Numba's, e.g. 'int64(voidptr, int64)'.
    """

    def decorate(function: Callable[..., int]) -> Callable[..., int]:
        name = f"{function.__module__}.{function.__qualname__}"
        arguments, result = sigutils.normalize_signature(signature)
        if name in _waiting:
            raise ValueError(f"an extern_kernel must have a name of its own, got {name} twice; rename one")
        _waiting[name] = _Waiting(signature, function)
        return cast("Callable[..., int]", types.ExternalFunction(name, Signature(result, arguments, None)))

    return decorate


class JumpTable:
    """Functions of one signature by number, each compiled by `prepare`; kernels call all of them through `call`.

    `call` passes its arguments on to the function with the number at `place`, and returns 0 if that function is not
    prepared in this process. So a kernel is compiled without any of them, and a run compiles only those it uses.

    name: unique name of the symbol that kernels call.
    """

    def __init__(self, name: str, signature: str, place: int, size: int = 64) -> None:
        self._signature, self._functions = signature, dict[int, Any]()
        self._addresses = (c_int64 * size)()
        arguments, result = sigutils.normalize_signature(signature)
        whole, real, pointer = ir.IntType(64), ir.DoubleType(), ir.IntType(8).as_pointer()
        kinds = {types.float64: real, types.voidptr: pointer}
        kind = ir.FunctionType(whole, [kinds.get(argument, whole) for argument in arguments])
        module = ir.Module()
        function = ir.Function(module, kind, name)
        build, number = ir.IRBuilder(function.append_basic_block()), function.args[place]
        with build.if_then(build.icmp_unsigned(">=", number, whole(size))):
            build.ret(whole(0))
        table = build.inttoptr(whole(addressof(self._addresses)), whole.as_pointer())
        target = build.load(build.gep(table, [number]))
        with build.if_then(build.icmp_unsigned("==", target, whole(0))):
            build.ret(whole(0))
        build.ret(build.call(build.inttoptr(target, kind.as_pointer()), function.args))
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = llvm.Target.from_default_triple().create_target_machine()
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(str(module)), machine)
        engine.finalize_object()
        _engines.append(engine)  # keeps its code in memory
        llvm.add_symbol(name, engine.get_function_address(name))
        self.call = cast("Callable[..., int]", types.ExternalFunction(name, Signature(result, arguments, None)))

    def add(self, number: int, function: Callable[..., int]) -> None:
        """Enter a function without compiling it."""
        self._functions[number] = extern_kernel(self._signature)(function)

    def prepare(self, number: int) -> None:
        """Compile a function, or load it from the disk, unless this process has it already."""
        if self._addresses[number] == 0:
            with global_compiler_lock:
                _compile_externs({self._functions[number].symbol})
            self._addresses[number] = llvm.address_of_symbol(self._functions[number].symbol)


_OPTIONS: dict[str, Any] = {"error_model": "numpy", "fastmath": False}
_engines: list[object] = []


class _Waiting(NamedTuple):
    """A function that kernels call by its address and that is not compiled yet."""

    signature: str
    function: Any


_waiting: dict[str, _Waiting] = {}
_compiled_extern: list[object] = []


def _compile_externs(names: Collection[str]) -> None:
    """Compile the waiting functions among `names`, in the order of declaration.

    The caller holds Numba's lock, so another thread waits until they are compiled.
    """
    for name in [one for one in _waiting if one in names]:
        if name in _waiting:
            one = _waiting.pop(name)
            compiled: Any = CFunc(one.function, sigutils.normalize_signature(one.signature), {}, _OPTIONS)
            set_cache(compiled, ("cfunc", one.signature, sorted(_OPTIONS.items())), _compile_externs)
            with uncollected():
                compiled.compile()
            _compiled_extern.append(compiled)  # keeps its code in memory
            llvm.add_symbol(name, compiled.address)


def _compiled(function: F, *, counted: bool) -> F:
    if JIT_DISABLED:
        return function
    # All options are explicit, because a kernel that is first compiled for a caller would inherit that one's.
    options = {**_OPTIONS, "_nrt": counted, "nogil": True}  # seeds of one cell learn on threads
    dispatcher: Any = cast("Any", njit)(no_cfunc_wrapper=True, **options)(function)
    set_cache(dispatcher, sorted(options.items()), _compile_externs)

    linked = cache(lambda: linked_kernel(dispatcher, options, _compile_externs))
    dispatcher.get_call_template = lambda arguments, keywords: linked().get_call_template(arguments, keywords)
    dispatcher.get_overload = lambda signature: linked().get_overload(signature)
    use_linked_code(dispatcher, linked)
    return cast("F", dispatcher)
