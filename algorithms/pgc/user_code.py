"""Isolation of users' environments and modules: errors, output and torch threads."""

from __future__ import annotations

import ctypes
import logging
import os
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from functools import cache
from pathlib import Path
from typing import TextIO

from dprl.privacy import LedgerError


@contextmanager
def error_barrier(*, refusals: bool = False) -> Iterator[None]:
    """Drop the errors of a `with` block, including those that would end the process.

    Environments and modules are user code, and their errors reveal private data; so does whether there was one. A
    KeyboardInterrupt passes without its texts. Use it inside of `silent`: destructors of an error's objects may write.

    refusals: whether LedgerErrors pass. They contain public numbers only. Leave it False around an agent's episode.
    """
    try:
        yield
    except BaseException as error:
        if refusals and isinstance(error, LedgerError):
            raise
        with suppress(Exception):  # an error's class is user code, too
            _empty(error)
        if isinstance(error, KeyboardInterrupt):
            raise


def _empty(error: BaseException | None) -> None:
    """Free all that an error holds: the variables of its frames, its texts and notes, and the errors before it."""
    while error is not None:
        earlier = error.__cause__ or error.__context__
        traceback.clear_frames(error.__traceback__)
        for part in error.exceptions if isinstance(error, BaseExceptionGroup) else ():
            _empty(part)
        error.args, error.__context__, error.__cause__ = (), None, None
        error.__dict__.clear()
        error = earlier


_lock, _inside, _restoring = threading.Lock(), 0, ExitStack()
"""Blocks of `silent` that are running in all threads, and the steps that undo the first of them."""


@contextmanager
def silent() -> Iterator[None]:
    """Drop all that is written to standard output and error, warnings and logs; an agent's data could be in them.

    The file descriptors 1 and 2 themselves lead nowhere until the last block in any thread has ended, so compiled code
    and other processes started in the block are not heard either. The buffers of Python and C are emptied before that.
    Code that copied a descriptor earlier, or writes files, is not stopped, nor are threads that outlive the block and
    destructors of reference cycles that are collected after it.
    """
    global _inside, _restoring  # noqa: PLW0603 - descriptors belong to the process
    with _lock:
        if _inside == 0:
            _restoring = _silence()
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _restoring.close()


def _silence() -> ExitStack:
    with ExitStack() as stack:
        stack.callback(logging.disable, logging.root.manager.disable)
        logging.disable(sys.maxsize)
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        nowhere = os.open(os.devnull, os.O_RDWR)
        stack.callback(os.close, nowhere)
        _flush()
        for descriptor in (1, 2):
            try:
                kept = os.dup(descriptor)
            except OSError:  # the process has none
                os.dup2(nowhere, descriptor)
                stack.callback(os.close, descriptor)
            else:
                os.dup2(nowhere, descriptor)
                stack.callback(os.close, kept)
                stack.callback(os.dup2, kept, descriptor)
        stack.callback(_flush)
        stack.enter_context(redirect_stdout(_unheard()))
        stack.enter_context(redirect_stderr(_unheard()))
        return stack.pop_all()


@cache
def _unheard() -> TextIO:
    """Return a stream that leads nowhere; it stays open, because code of one block may keep it for the next."""
    return Path(os.devnull).open("w")


def _flush() -> None:
    """Empty the buffers of standard output and error, of Python, also under their first names, and of C."""
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        with suppress(OSError, ValueError, AttributeError):  # closed, or absent
            stream.flush()  # type: ignore[union-attr]
    with suppress(OSError, TypeError, AttributeError):
        ctypes.CDLL(None).fflush(None)


@contextmanager
def one_thread() -> Iterator[None]:
    """Run torch on one thread: networks are small, and results must not depend on the number of cores."""
    import torch  # noqa: PLC0415 - it takes seconds to load

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
