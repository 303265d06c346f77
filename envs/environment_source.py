"""Digest of the code that an environment of Gymnasium runs, and of the values that this code has captured."""

from __future__ import annotations

import copyreg
import dis
import hashlib
import inspect
import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache
from pathlib import Path
from types import CodeType, FunctionType, MappingProxyType, ModuleType
from typing import Any

import gymnasium
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec

from dprl.envs.gymnasium_ids import FAILURES
from dprl.sources import is_installed, is_ours

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...))
_BY_PYTHON = {
    *("__dict__", "__weakref__", "__doc__", "__module__", "__annotations__", "__orig_bases__", "__parameters__"),
    *("__dataclass_fields__", "__dataclass_params__", "__firstlineno__", "__static_attributes__", "_abc_impl"),
}
"""Attributes that Python itself sets in a class."""
_UNPICKLABLE = (*FAILURES, pickle.PickleError)
_DRAWN = {"_np_random", "_np_random_seed"}  # attributes of spaces and environments that change with each draw


def environment_source(played: Sequence[type], creator: object, entry: EnvSpec) -> str:
    """Return 12 hex digits that change with the code of an environment.

    played: classes of the environment itself and of its wrappers. creator: the class or function that makes it. entry:
    of Gymnasium's registry.

    For code in a file it is the digest of the file's bytes and of values in closures; without a file, as in a notebook,
    of the byte code and of all values that it reads. Raises ValueError for a value that cannot be pickled.
    """
    code = _Code()
    try:
        for i, part in enumerate([*played, creator]):
            code.add_part(part, always=i == 0)
        if callable(entry.entry_point) and entry.kwargs:
            code.add(entry.kwargs)
        if callable(entry.vector_entry_point):
            code.add_part(entry.vector_entry_point)
    except _UNPICKLABLE as error:
        why = " ".join(f"{type(error).__name__}: {error}".split())
        rule = "env_id must be an environment that reads only values that can be pickled"
        raise ValueError(f"{rule}, got {entry.id} ({why}); define it in a file, or pass values in kwargs") from None
    return code.digest()


class _Code:
    """Files, byte code and values, in the order in which they are found."""

    def __init__(self) -> None:
        self._files: dict[Path, bytes] = {}
        self._texts: list[str] = []
        self._seen: dict[int, tuple[int, object]] = {}

    def digest(self) -> str:
        """Return 12 hex digits; of a single file they are those of its bytes."""
        files = list(self._files.values())
        if len(files) == 1 and not self._texts:
            return hashlib.sha256(files[0]).hexdigest()[:12]
        parts = [*files, "\0".join(self._texts).encode(errors="surrogatepass")]
        return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()[:12]

    def add_part(self, part: object, *, always: bool = False) -> None:
        """Add a class or function of an environment. always: even one of an installed package."""
        file = _file_of(part)
        if file is None:
            self.add(part)
        elif always or not _is_installed(part):
            self._add_file(part, file)

    def add(self, value: Any) -> None:  # noqa: ANN401
        """Add a value: its text, or the code and values that it consists of."""
        value = _inner(value)
        if type(value) in _PLAIN:
            self._texts.append(repr(value))
            return
        if id(value) in self._seen:
            self._texts.append(f"value {self._seen[id(value)][0]}")
            return
        self._seen[id(value)] = (len(self._seen), value)  # kept, so that no later value has its id
        if isinstance(value, CodeType):
            self._add_all((value.co_code, value.co_consts, value.co_names, value.co_varnames, value.co_freevars))
        elif isinstance(value, type | FunctionType | ModuleType):
            self._add_named(value)
        elif type(value) in (tuple, list):
            self._add_all(value)
        elif type(value) in (set, frozenset):
            self._add_all(sorted(value, key=repr))
        elif type(value) in (dict, MappingProxyType):
            self._add_all(part for pair in value.items() for part in pair)
        elif isinstance(value, spaces.Space | gymnasium.Env):
            state = {key: each for key, each in vars(value).items() if key not in _DRAWN}
            self._add_all((type(value), state))
        else:
            of_class = copyreg.dispatch_table.get(type(value))
            reduced = of_class(value) if of_class else value.__reduce_ex__(4)
            if isinstance(reduced, str):
                self._texts.append(f"{getattr(value, '__module__', '')}.{reduced}")
            else:
                self._add_all(list(part) if isinstance(part, Iterator) else part for part in reduced)

    def _add_all(self, values: Any) -> None:  # noqa: ANN401
        self._texts.append("(")
        for value in values:
            self.add(value)
        self._texts.append(")")

    def _add_named(self, value: Any) -> None:  # noqa: ANN401
        """Add a class, function or module that code refers to."""
        name = getattr(value, "__qualname__", "")
        self._texts.append(f"{value.__name__ if not name else value.__module__}.{name}")
        if _is_installed(value):
            if isinstance(value, FunctionType) and hasattr(value, "__wrapped__"):
                self.add(value.__wrapped__)
            return
        file = _file_of(value)
        if file is not None:
            self._add_file(value, file)
        elif isinstance(value, FunctionType):
            self._add_all((value.__code__, value.__defaults__, value.__kwdefaults__))
            self._add_closure(value)
            self._add_globals(value)
        elif isinstance(value, type):
            self._add_all(value.__bases__)
            self._add_all({key: each for key, each in vars(value).items() if key not in _BY_PYTHON}.items())

    def _add_file(self, value: object, file: Path) -> None:
        """Add the bytes of a file, and the values that the functions of one of its classes have captured."""
        functions = list(_functions(value))
        self._files.setdefault(file, _read(file, value, tuple(each.__code__ for each in functions)))
        if _is_installed(value):
            return
        for each in functions:
            of_program = each.__module__ == "__main__"
            if of_program or "<" in each.__qualname__:  # made by code that may run with other values
                for default in (each.__defaults__, each.__kwdefaults__):
                    if default:
                        self.add(default)
            self._add_closure(each)
            if of_program:
                with suppress(*_UNPICKLABLE):  # the file has most of the code
                    self._add_globals(each)

    def _add_closure(self, function: FunctionType) -> None:
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            if name != "__class__":
                with suppress(ValueError):  # a variable without a value
                    self._add_all((name, cell.cell_contents))

    def _add_globals(self, function: FunctionType) -> None:
        for name in sorted(_global_names(function.__code__)):
            if name in function.__globals__:
                self._add_all((name, function.__globals__[name]))


def _inner(value: Any) -> Any:  # noqa: ANN401
    """Return the functions inside a descriptor or a compiled or caching function; other values unchanged."""
    if isinstance(value, property):
        return (value.fget, value.fset, value.fdel)
    if isinstance(value, staticmethod | classmethod):
        return _inner(value.__func__)
    if isinstance(value, cached_property):
        return value.func
    if isinstance(value, type | FunctionType | ModuleType | gymnasium.Env):
        return value
    inner = getattr(value, "py_func", None) or getattr(value, "__wrapped__", None)
    return inner if isinstance(inner, FunctionType) else value


def _functions(value: object) -> Iterator[FunctionType]:
    """Yield a function itself, or the functions that a class defines."""
    for each in vars(value).values() if isinstance(value, type) else [value]:
        inner = _inner(each)
        yield from (part for part in (inner if type(inner) is tuple else [inner]) if isinstance(part, FunctionType))


def _global_names(code: CodeType) -> set[str]:
    """Return the names that code, and the code inside it, reads from its module."""
    found = {each.argval for each in dis.get_instructions(code) if each.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return found.union(*(_global_names(each) for each in code.co_consts if isinstance(each, CodeType)))


def _file_of(value: object) -> Path | None:
    """Return the Python file that defines a class, function or module; None if there is none, as in a notebook."""
    if isinstance(value, FunctionType):
        return _existing(value.__code__.co_filename)
    if not isinstance(value, type | ModuleType):
        return None
    with suppress(OSError, TypeError):
        file = _existing(inspect.getsourcefile(value) or "")
        if isinstance(value, ModuleType) or file is None:
            return file
        # A class that was made by exec has the file of its module, but is not in it.
        names = [each.__code__.co_filename for each in _functions(value)]
        if file in map(_existing, names):
            return file
        inspect.findsource(value)
        return None if any(name.startswith("<") for name in names) else file
    return None


def _existing(name: str) -> Path | None:
    path = Path(name)
    return path.resolve() if path.suffix == ".py" and path.is_file() else None


@lru_cache(maxsize=256)
def _read(file: Path, _: Callable[..., Any], __: tuple[CodeType, ...]) -> bytes:
    """Return the bytes of a file as they were when this class or function, with this code, was seen first."""
    return file.read_bytes()


def _is_installed(value: Any) -> bool:  # noqa: ANN401
    """Whether a class, function or module belongs to Python, to dprl or to an installed package."""
    name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None) or ""
    if name == "__main__":
        return False
    file = getattr(sys.modules.get(name), "__file__", None)
    if file is None:
        return name.partition(".")[0] in sys.stdlib_module_names
    return is_ours(file) or is_installed(Path(file).resolve())
