"""Files of compiled kernels in this user's cache.

Numba optimises every function that a kernel calls, and compiles machine code and two wrappers for it; then its callers
merge the intermediate code and optimise all of it again. Here, a kernel has intermediate code once, which its callers
and its wrapper for Python link and which is optimised where they become machine code. That code is as fast.
"""

# mypy: disable-error-code="no-untyped-call, attr-defined, misc, assignment"
# Numba types its public interface only.

from __future__ import annotations

import gc
import hashlib
import inspect
import os
import pickle
import secrets
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from copy import copy
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

import llvmlite.binding as llvm
from numba.core import compiler, sigutils
from numba.core.caching import NullCache
from numba.core.codegen import CPUCodeLibrary
from numba.core.environment import Environment
from numba.core.registry import CPUDispatcher
from numba.core.serialize import dumps
from numba.core.targetconfig import ConfigStack

from dprl.atomic_files import write_bytes
from dprl.kernel_keys import reached, type_text
from dprl.sources import cache_base

KEPT_FILES = 4000


Prepare = Callable[[Collection[str]], None]


def kernel_folder() -> Path:
    """Return this user's folder of compiled kernels."""
    return cache_base() / "kernels"


class _KernelCache(NullCache):
    """Files of one kernel, named by everything that its machine code depends on; without a key there is no file.

    suffix: of the files. kind: options of its compilation. prepare: compiles the symbols that the kernel calls.
    """

    suffix = ".kernel"

    def __init__(self, function: FunctionType, kind: str, prepare: Prepare) -> None:
        self._function, self._kind, self._prepare = function, kind, prepare
        self.keys: dict[object, str | None] = {}

    def load_overload(self, sig: Any, target_context: Any) -> Any:  # noqa: ANN401 - as Numba's
        """Return the compiled code for these arguments, None if there is no file."""
        target_context.refresh()
        code, externs = reached(self._function)
        self._prepare(externs)
        key = self.keys[sig] = self._key(code, sig)
        if key is None:
            return None
        path = kernel_folder() / self._name(key, target_context.codegen().magic_tuple())
        with suppress(OSError, EOFError, pickle.UnpicklingError):
            content = path.read_bytes()
            os.utime(path)
            return self.rebuilt(target_context, pickle.loads(content))
        return None

    def save_overload(self, sig: Any, data: Any) -> None:  # noqa: ANN401 - as Numba's
        """Write a newly compiled overload."""
        key = self.keys.get(sig)
        if key is None or data.lifted or data.library.has_dynamic_globals:
            return
        _drop_oldest(kernel_folder())
        with suppress(OSError):  # a folder that cannot be written
            write_bytes(kernel_folder() / self._name(key, data.codegen.magic_tuple()), dumps(data._reduce()))

    def rebuilt(self, target_context: Any, payload: Any) -> Any:  # noqa: ANN401 - as Numba's
        """Return the result of an earlier compilation from its `_reduce`d form."""
        return compiler.CompileResult._rebuild(target_context, *payload)

    def _key(self, code: str | None, sig: Any) -> str | None:  # noqa: ANN401 - as Numba's
        arguments, result = sigutils.normalize_signature(sig)
        texts = [type_text(one) for one in arguments]
        return None if code is None or None in texts else f"{code} {self._kind} {texts} {result}"

    def _name(self, key: str, cpu: tuple[str, ...]) -> str:
        digest = hashlib.sha256(repr((key, *cpu)).encode()).hexdigest()[:32]
        return f"{self._function.__name__[:40]}-{digest}{self.suffix}"


@cache
def _drop_oldest(folder: Path) -> None:
    """Delete all but the newest files, once per process."""
    for _, stale in sorted(_aged(folder), reverse=True)[KEPT_FILES:]:
        stale.unlink(missing_ok=True)


def _aged(folder: Path) -> Iterator[tuple[float, Path]]:
    for path in folder.glob("*"):
        with suppress(OSError):  # another process tidies up as well
            yield path.stat().st_mtime, path


class _Library(CPUCodeLibrary):
    """Intermediate code for which no machine code is made; its functions are optimised separately."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def serialize_using_object_code(self) -> Any:  # noqa: ANN401 - as Numba's
        return self.serialize_using_bitcode()


class _LinkedCache(_KernelCache):
    """Files of `_Library`."""

    suffix = ".linked"

    def rebuilt(self, target_context: Any, payload: Any) -> Any:  # noqa: ANN401 - as Numba's
        (name, _, code), fndesc, env, signature, objectmode, lifted, annotation, reload_init, environments = payload
        for start in reload_init:
            start()
        library = _Library(target_context.codegen(), name)
        library._final_module = llvm.parse_bitcode(code)
        library._finalize_final_module()
        return compiler.compile_result(
            typing_context=target_context.typing_context,
            target_context=target_context,
            library=library,
            environment=env,
            entry_point=object(),
            fndesc=fndesc,
            type_annotation=annotation,
            signature=signature,
            objectmode=objectmode,
            lifted=lifted,
            reload_init=reload_init,
            referenced_envs=environments,
        )


class _LinkedKernel(CPUDispatcher):
    """Numba's dispatcher of a function that only kernels call."""

    def __init__(self, function: FunctionType, options: dict[str, Any], prepare: Prepare) -> None:
        wrappers = {"nopython": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
        super().__init__(function, targetoptions={**options, **wrappers})
        self._cache = _LinkedCache(function, repr(sorted(options.items())), prepare)
        self._compiler._compile_core = self._compile_core

    def add_overload(self, made: Any) -> None:  # noqa: ANN401 - as Numba's
        """Enter a result for callers, which are kernels and not Python."""
        self.overloads[tuple(made.signature.args)] = made

    def _compile_core(self, args: Any, return_type: Any) -> Any:  # noqa: ANN401 - as Numba's
        """Compile one signature to a `_Library`, like Numba's compiler of functions."""
        flags, function = compiler.Flags(), self._named_by_its_key(args)
        self.targetdescr.options.parse_as_flags(flags, self.targetoptions)
        flags.no_compile = True
        library = _Library(self.targetctx.codegen(), self.py_func.__qualname__)
        made = compiler.compile_extra(
            self.typingctx, self.targetctx, function, args, return_type, flags, self.locals, library
        )
        if made.typing_error is not None:
            raise made.typing_error
        library._ensure_finalized()
        made.reload_init.extend(getattr(library, "_reload_init", ()))  # absent in Numba 0.61
        made = made._replace(entry_point=object())  # a key of it
        self.targetctx.insert_user_function(made.entry_point, made.fndesc, [library])
        return made

    def _named_by_its_key(self, args: Any) -> FunctionType:  # noqa: ANN401 - as Numba's
        """Return the function with a symbol that no other one has.

        Numba numbers symbols anew in each process, and the linker takes the first of two equal ones: two functions of
        one name, as a factory makes them, could come from the files of two processes.
        """
        function, key = self.py_func, self._cache.keys[tuple(args)]
        named = FunctionType(
            function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
        )
        named.__kwdefaults__, named.__module__ = function.__kwdefaults__, function.__module__
        identity = secrets.token_hex(16) if key is None else hashlib.sha256(key.encode()).hexdigest()[:32]
        named.__qualname__ = f"{function.__qualname__}-{identity}"
        return named


def set_cache(compiled: Any, kind: object, prepare: Prepare) -> None:  # noqa: ANN401 - a dispatcher or a CFunc
    """Store the machine code of a Numba function in this cache.

    kind: options of its compilation. prepare: compiles the symbols that it calls.
    """
    function = getattr(compiled, "py_func", None) or compiled.__wrapped__
    compiled._cache = _KernelCache(function, repr(kind), prepare)


def linked_kernel(dispatcher: Any, options: dict[str, Any], prepare: Prepare) -> Any:  # noqa: ANN401 - as Numba's
    """Return the dispatcher through which other kernels link a kernel's code, without machine code of its own."""
    linked = _LinkedKernel(dispatcher.py_func, options, prepare)
    linked._compiling_counter = dispatcher._compiling_counter  # by which Numba detects recursion
    return linked


@contextmanager
def uncollected() -> Iterator[None]:
    """Switch the garbage collector off: its passes took a tenth of Numba's time. The caller holds Numba's lock."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def use_linked_code(dispatcher: Any, linked: Callable[[], Any]) -> None:  # noqa: ANN401 - as Numba's
    """Let Python call the code that kernels link: what Python and kernels call is then compiled from source once.

    Generators, functions that call themselves, and results of a given type are compiled as Numba does.
    """
    code, numbas = dispatcher.py_func.__code__, dispatcher._compiler._compile_core
    apart = inspect.isgeneratorfunction(dispatcher.py_func) or code.co_name in (*code.co_names, *code.co_freevars)

    def compiled(args: Any, result: Any) -> Any:  # noqa: ANN401 - as Numba's
        with uncollected():
            return numbas(args, result) if apart or result is not None else wrapped(tuple(args))

    def wrapped(args: tuple[Any, ...]) -> Any:  # noqa: ANN401 - as Numba's
        kernel, flags = linked(), compiler.Flags()
        kernel.compile(args)
        made = kernel.overloads[args]
        kernel.targetdescr.options.parse_as_flags(flags, kernel.targetoptions)
        context = compiler._make_subtarget(kernel.targetctx, flags)
        library = context.codegen().create_library(made.fndesc.qualname)
        library.enable_object_caching()
        library.add_linking_library(made.library)
        # The wrapper adds constants of its own to its environment, so it does not share the kernel's.
        about = copy(made.fndesc)
        about.env_name += ".wrapper"
        own = Environment.from_fndesc(about)
        with context.push_code_library(library), ConfigStack().enter(flags):
            context.create_cpython_wrapper(library, about, own, None, flags.release_gil)
        library.finalize()
        entry = context.get_executable(library, about, own)
        whole = made._replace(library=library, entry_point=entry, fndesc=about, environment=own, metadata={})
        used = whole._find_referenced_environments()  # of all kernels linked
        for environment in used:
            library.codegen.set_env(environment.env_name, environment)
        return whole._replace(referenced_envs=used)

    dispatcher._compiler._compile_core = compiled
