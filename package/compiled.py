"""Compilation of hot loops: one set of flags, and an on-disk cache that cannot run stale noise.

Numba's own cache looks only at the file of the called function; a kernel that was compiled together with an older
`laplace.py` would still be found. Here the cache folder is named by a digest of every source that a kernel can reach,
so a change of any of them compiles anew. Comments, docstrings and layout are no change.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from ctypes import addressof, c_int64
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Literal, NamedTuple, TypeVar, cast

import llvmlite.binding as llvm
from llvmlite import ir
from numba import cfunc, njit
from numba.core import config, sigutils, types
from numba.core.caching import CompileResultCacheImpl, UserProvidedCacheLocator
from numba.core.compiler_lock import global_compiler_lock
from numba.core.typing.templates import Signature

from dprl.linking import LinkedKernel
from dprl.sources import cache_base, is_ours, source_digest

F = TypeVar("F", bound=Callable[..., object])

_KEPT_CACHES, _KEPT_DIGESTS = 6, 60
JIT_DISABLED = bool(vars(config)["DISABLE_JIT"])
"""Whether kernels run uncompiled."""


def cache_folder() -> Path:
    """Return the folder for compiled kernels, below `cache_base`."""
    return cache_base() / f"kernels-{source_digest()}"


@cache
def prepared_folder() -> str:
    """Make the cache folder, where it cannot be written one of this process, and drop all but the newest few."""
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
    except OSError:
        return tempfile.mkdtemp(prefix="dprl-kernels-")
    for stale in _oldest({*folder.parent.glob("kernels-*")} - {folder}, _KEPT_CACHES - 1):
        shutil.rmtree(stale, ignore_errors=True)
    for stale in _oldest(folder.parent.glob("digest-*"), _KEPT_DIGESTS):
        stale.unlink(missing_ok=True)
    return str(folder)


def _oldest(paths: Iterable[Path], kept: int) -> list[Path]:
    """Return all but the newest `kept` of the paths."""
    ages = {}
    for path in paths:
        with suppress(OSError):  # another process tidies up as well
            ages[path] = path.stat().st_mtime
    return sorted(ages, key=lambda path: ages[path], reverse=True)[kept:]


class _Locator(UserProvidedCacheLocator):
    """Numba's key to cached code of our files: neither line numbers nor bytes count, but what the code does.

    Callees and constants of other files are in `source_digest`, which is part of the key.
    """

    def __init__(self, function: FunctionType, file: str) -> None:
        super().__init__(function, file)  # type: ignore[no-untyped-call]
        self._code = hashlib.sha256(repr(_code_text(function.__code__)).encode()).hexdigest()[:12]

    @classmethod
    def from_function(cls, function: FunctionType, file: str) -> Any:  # noqa: ANN401 - as Numba's
        ours = vars(config)["CACHE_DIR"] == prepared_folder() and is_ours(file)
        return super().from_function(function, file) if ours else None  # type: ignore[no-untyped-call]

    def get_source_stamp(self) -> str:
        return source_digest()

    def get_disambiguator(self) -> str:
        return self._code


CompileResultCacheImpl._locator_classes.insert(0, _Locator)


def _code_text(code: CodeType) -> tuple[object, ...]:
    """Return the instructions, names and constants of a function, without its lines and its docstring."""
    constants = [_code_text(one) if isinstance(one, CodeType) else one for one in code.co_consts]
    if constants and isinstance(constants[0], str):
        constants[0] = None
    return code.co_code, code.co_names, code.co_varnames, constants


def kernel(function: F) -> F:
    """Compile `function` in nopython mode, strict IEEE arithmetic, cached on disk under the digest of all sources.

    `error_model="numpy"` removes the zero-division check that would block vectorisation; `fastmath` stays off, so
    that the same source gives the same bits whatever the vector width. With NUMBA_DISABLE_JIT=1 the plain function
    runs, which is the reference in tests.
    """
    return _compiled(function, inline="never")


def inlined(function: F) -> F:
    """Compile `function` as `kernel` does, merged into its callers first.

    For small functions of tuples of arrays: a call counts a reference to every array of the tuple, which takes longer
    than what they do (0.25 of 3.4 us an episode on RiverSwim).
    """
    return _compiled(function, inline="always")


def no_alloc_kernel(function: F) -> F:
    """Compile `function` as `kernel` does, but let it borrow the arrays of its caller: no references are counted.

    For functions that are called in every episode with tuples of many arrays: counting took 0.9 of 2.6 us of an
    exchange. They may index, slice and reshape their arguments, write there and pass them on; they must neither make
    arrays nor return any.
    """
    return _compiled(function, inline="never", counted=False)


def extern_kernel(signature: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Compile `function` once for all kernels, which call it by its address.

    What a kernel calls is otherwise optimised anew for every kernel that calls it, and the samplers alone take many
    seconds. The function takes numbers and pointers, raises nothing, and can be called in kernels only; with
    NUMBA_DISABLE_JIT=1 there are no pointers, and callers use the plain function behind it.

    signature: Numba's, 'int64(voidptr, int64)' for instance.
    """

    def decorate(function: Callable[..., int]) -> Callable[..., int]:
        name = f"{function.__module__}.{function.__qualname__}.{source_digest()}"
        arguments, result = sigutils.normalize_signature(signature)
        _waiting[name] = _Waiting(name, signature, function)
        return cast("Callable[..., int]", types.ExternalFunction(name, Signature(result, arguments, None)))

    return decorate


class JumpTable:
    """Functions of one signature by number, each compiled when it is prepared; kernels call all of them as `call`.

    `call` passes its arguments on to the function whose number is the one at `place`, and returns 0 if that function
    is not prepared in this process. So a kernel is compiled without any of them, and a run compiles those it uses.
    """

    def __init__(self, signature: str, place: int, size: int = 64) -> None:
        self._signature, self._functions = signature, dict[int, Any]()
        self._addresses = (c_int64 * size)()
        arguments, result = sigutils.normalize_signature(signature)
        whole, real, pointer = ir.IntType(64), ir.DoubleType(), ir.IntType(8).as_pointer()
        kinds = {types.float64: real, types.voidptr: pointer}
        kind = ir.FunctionType(whole, [kinds.get(argument, whole) for argument in arguments])
        module, name = ir.Module(), f"{__name__}.jump.{len(_engines)}"
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
        _engines.append(engine)  # its code must stay
        llvm.add_symbol(name, engine.get_function_address(name))
        self.call = cast("Callable[..., int]", types.ExternalFunction(name, Signature(result, arguments, None)))

    def add(self, number: int, function: Callable[..., int]) -> None:
        """Enter a function, of which nothing is compiled yet."""
        self._functions[number] = extern_kernel(self._signature)(function)

    def prepare(self, number: int) -> None:
        """Compile a function, or load it from the disk, unless this process has it."""
        if self._addresses[number] == 0:
            _compile_extern(self._functions[number])
            self._addresses[number] = llvm.address_of_symbol(self._functions[number].symbol)


_engines: list[object] = []


class _Waiting(NamedTuple):
    """A function that kernels call by its address, and that is not compiled yet."""

    name: str
    signature: str
    function: Callable[..., int]


_waiting: dict[str, _Waiting] = {}
_under_way: list[str] = []
_compiled_extern: list[object] = []


def _compile_extern(function: Callable[..., object]) -> None:
    """Compile what is waiting and `function` may call, in the order in which it was declared, before it is linked.

    What is on disk is taken too, which takes no time: a kernel that is on disk may call it in ways not seen here.
    """
    with global_compiler_lock:  # another thread must wait until the names are there; this one comes back to nothing
        reached = _reached(function)
        for name, one in list(_waiting.items()):
            marker = Path(prepared_folder()) / f"{name}.extern"
            # While one is compiled, its name is not there yet: of others only those that it calls may be.
            if name in _waiting and (name in reached or (not _under_way and marker.exists())):
                _waiting.pop(name)
                _compile_one(one)
                marker.touch()


def _compile_one(one: _Waiting) -> None:
    _under_way.append(one.name)
    try:
        with _our_cache():
            compiled = cfunc(one.signature, cache=True, error_model="numpy", fastmath=False)(one.function)
    finally:
        _under_way.pop()
    _compiled_extern.append(compiled)  # its code must stay
    llvm.add_symbol(one.name, compiled.address)


def _reached(function: Callable[..., object]) -> set[str]:
    """Return the names of the `extern_kernel`s that a function reaches by what it names, however many calls away."""
    found: set[str] = set()
    seen: set[object] = set()
    following: list[object] = [function]
    while following:
        one = following.pop()
        one = getattr(one, "py_func", one)
        if isinstance(one, types.ExternalFunction):
            found.add(one.symbol)
            if one.symbol in _waiting:
                following.append(_waiting[one.symbol].function)
        elif isinstance(one, FunctionType) and one not in seen:
            seen.add(one)
            following += _named(one)
    return found


def _named(function: FunctionType) -> list[object]:
    """Return the values of all globals and of all variables of enclosing functions that a function names."""
    codes: list[CodeType] = [function.__code__]
    for code in codes:  # grows: those of comprehensions
        codes += [one for one in code.co_consts if isinstance(one, CodeType)]
    names = {name for code in codes for name in code.co_names}
    found = [function.__globals__[name] for name in names if name in function.__globals__]
    found += [cell.cell_contents for cell in function.__closure__ or ()]
    modules = [one for one in found if isinstance(one, ModuleType)]
    return found + [vars(module)[name] for module in modules for name in names if name in vars(module)]


@contextmanager
def _our_cache() -> Iterator[None]:
    settings = vars(config)
    previous = settings["CACHE_DIR"]
    settings["CACHE_DIR"] = prepared_folder()
    try:
        yield
    finally:
        settings["CACHE_DIR"] = previous


def _compiled(function: F, inline: Literal["never", "always"], *, counted: bool = True) -> F:
    # Said each time: a kernel that is first compiled for a caller would take over what that one has.
    options: dict[str, Any] = {"error_model": "numpy", "fastmath": False, "inline": inline, "_nrt": counted}
    options["nogil"] = True  # seeds of one cell learn on threads
    with _our_cache():
        dispatcher: Any = njit(cache=True, no_cfunc_wrapper=True, **options)(function)
    if JIT_DISABLED:
        return cast("F", dispatcher)
    compile_kernel = dispatcher.compile

    @cache
    def linked() -> Any:  # noqa: ANN401 - as Numba's
        with _our_cache():
            inner = LinkedKernel(cast("FunctionType", function), options)
        inner._compiling_counter = dispatcher._compiling_counter  # by which Numba knows recursion
        return inner

    def compile_after_extern(signature: Any) -> Any:  # noqa: ANN401 - as Numba's
        _compile_extern(function)
        return compile_kernel(signature)

    def call_template(arguments: Any, keywords: Any) -> Any:  # noqa: ANN401 - as Numba's
        _compile_extern(function)
        return linked().get_call_template(arguments, keywords)

    dispatcher.compile = compile_after_extern
    dispatcher.get_call_template = call_template
    dispatcher.get_overload = lambda signature: linked().get_overload(signature)
    return cast("F", dispatcher)
