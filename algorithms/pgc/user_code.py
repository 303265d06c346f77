"""Isolation of users' environments and modules: errors, output and torch threads."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from types import TracebackType

from dprl.privacy import LedgerError


class ErrorBarrier:
    """A `with` block that drops its errors, including those that would end the process.

    Environments and modules are user code and may raise anything, and an error reveals private data. `failed` says
    afterwards whether there was an error; it is as private as the data.

    Args:
        refusals: whether LedgerErrors pass. They contain public numbers only. Leave it False around an agent's episode.
    """

    failed = False

    def __init__(self, *, refusals: bool = False) -> None:
        self._passing = (KeyboardInterrupt, LedgerError) if refusals else (KeyboardInterrupt,)

    def __enter__(self) -> ErrorBarrier:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self.failed = error is not None and not isinstance(error, self._passing)
        return self.failed


@contextmanager
def silent() -> Iterator[None]:
    """Drop prints, warnings and logs of Python code, because others could read an agent's data in them."""
    disabled = logging.root.manager.disable
    with Path(os.devnull).open("w") as nowhere, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(sys.maxsize)
        try:
            with redirect_stdout(nowhere), redirect_stderr(nowhere):
                yield
        finally:
            logging.disable(disabled)


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
