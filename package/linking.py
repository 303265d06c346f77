"""Kernels as other kernels call them: merged into the caller's machine code, with none of their own.

Numba compiles machine code and two wrappers for every function that a kernel calls, and its callers use only the
intermediate code. That was a fifth of a first run.
"""

# mypy: disable-error-code="no-untyped-call, attr-defined, misc, assignment"
# Numba types its public interface only.
from __future__ import annotations

from types import FunctionType
from typing import Any

import llvmlite.binding as llvm
from numba.core import compiler
from numba.core.codegen import CPUCodeLibrary
from numba.core.registry import CPUDispatcher

from dprl.kernel_cache import KernelCache, Prepare


class _Library(CPUCodeLibrary):
    """Optimised intermediate code, of which no machine code is made."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def serialize_using_object_code(self) -> Any:  # noqa: ANN401 - as Numba's
        return self.serialize_using_bitcode()


class _Cache(KernelCache):
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


class LinkedKernel(CPUDispatcher):
    """Numba's dispatcher of a function that only kernels call."""

    def __init__(self, function: FunctionType, options: dict[str, Any], prepare: Prepare) -> None:
        wrappers = {"nopython": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
        super().__init__(function, targetoptions={**options, **wrappers})
        self._cache = _Cache(function, repr(sorted(options.items())), prepare)
        self._compiler._compile_core = self._compile_core

    def add_overload(self, made: Any) -> None:  # noqa: ANN401 - as Numba's
        """Enter a result for callers; nothing calls it from Python."""
        self.overloads[tuple(made.signature.args)] = made

    def _compile_core(self, args: Any, return_type: Any) -> Any:  # noqa: ANN401 - as Numba's
        """Compile one signature as Numba's compiler of functions does, into a `_Library`."""
        flags = compiler.Flags()
        self.targetdescr.options.parse_as_flags(flags, self.targetoptions)
        flags.no_compile = True
        library = _Library(self.targetctx.codegen(), self.py_func.__qualname__)
        made = compiler.compile_extra(
            self.typingctx, self.targetctx, self.py_func, args, return_type, flags, self.locals, library
        )
        if made.typing_error is not None:
            raise made.typing_error
        library._ensure_finalized()
        made.reload_init.extend(library._reload_init)
        made = made._replace(entry_point=object())  # a key of it
        self.targetctx.insert_user_function(made.entry_point, made.fndesc, [library])
        return made
