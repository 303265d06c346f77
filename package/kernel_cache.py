"""Files of compiled kernels: those of this user, and those that came with the package."""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

from llvmlite.binding import get_host_cpu_features
from numba.core import sigutils
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from dprl.atomic_files import write_bytes
from dprl.kernel_keys import reached, type_text
from dprl.sources import cache_base

KEPT_FILES = 4000
SHIPPED = Path(__file__).resolve().parent / "kernels"
"""Folder of the kernels that a wheel may hold, compiled for `LEVELS`."""
# The names of LLVM, the best one first, and features of the host that tell them.
LEVELS = {
    "x86-64-v4": ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx2", "bmi2", "fma"),
    "x86-64-v3": ("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"),
}


Prepare = Callable[[Collection[str]], None]


def kernel_folder() -> Path:
    """Return this user's folder of compiled kernels."""
    return cache_base() / "kernels"


class KernelCache(NullCache):
    """Files of one kernel, each named by all that its machine code depends on; none for what has no key.

    suffix: of the files. kind: options that it is compiled with. prepare: compiles the symbols that the kernel calls.
    """

    suffix = ".kernel"

    def __init__(self, function: FunctionType, kind: str, prepare: Prepare) -> None:
        self._function, self._kind, self._prepare = function, kind, prepare
        self._keys: dict[object, str | None] = {}

    def load_overload(self, sig: Any, target_context: Any) -> Any:  # noqa: ANN401 - as Numba's
        """Return what was compiled for these arguments, None if there is no file of it."""
        target_context.refresh()
        code = reached(self._function)
        self._prepare(code.externs)
        key = self._keys[sig] = self._key(code.key, sig)
        if key is None:
            return None
        cpu = target_context.codegen().magic_tuple()
        own = kernel_folder() / self._name(key, cpu)
        for path in (own, *(SHIPPED / self._name(key, (cpu[0], level, "")) for level in _levels())):
            with suppress(OSError, EOFError, pickle.UnpicklingError):
                content = path.read_bytes()
                if path is own:
                    os.utime(path)
                return self.rebuilt(target_context, pickle.loads(content))
        return None

    def save_overload(self, sig: Any, data: Any) -> None:  # noqa: ANN401 - as Numba's
        """Write what `load_overload` did not find."""
        key = self._keys.get(sig)
        if key is None or data.lifted or data.library.has_dynamic_globals:
            return
        _drop_oldest(kernel_folder())
        with suppress(OSError):  # a folder that cannot be written
            write_bytes(kernel_folder() / self._name(key, data.codegen.magic_tuple()), dumps(data._reduce()))

    def rebuilt(self, target_context: Any, payload: Any) -> Any:  # noqa: ANN401 - as Numba's
        """Return the result of an earlier compilation from what its `_reduce` returned."""
        return CompileResult._rebuild(target_context, *payload)

    def _key(self, code: str | None, sig: Any) -> str | None:  # noqa: ANN401 - as Numba's
        arguments, result = sigutils.normalize_signature(sig)
        texts = [type_text(one) for one in arguments]
        return None if code is None or None in texts else f"{code} {self._kind} {texts} {result}"

    def _name(self, key: str, cpu: tuple[str, ...]) -> str:
        digest = hashlib.sha256(repr((key, *cpu)).encode()).hexdigest()[:32]
        return f"{self._function.__name__[:40]}-{digest}{self.suffix}"


@cache
def _levels() -> tuple[str, ...]:
    """Return the levels that this CPU supports; none if no kernels came with the package."""
    if not SHIPPED.is_dir():
        return ()
    has = get_host_cpu_features()
    return tuple(level for level, needed in LEVELS.items() if all(has.get(one) for one in needed))


@cache
def _drop_oldest(folder: Path) -> None:
    """Drop all but the newest files, once in a process."""
    for _, stale in sorted(_aged(folder), reverse=True)[KEPT_FILES:]:
        stale.unlink(missing_ok=True)


def _aged(folder: Path) -> Iterator[tuple[float, Path]]:
    for path in folder.glob("*"):
        with suppress(OSError):  # another process tidies up as well
            yield path.stat().st_mtime, path
