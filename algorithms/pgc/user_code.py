"""Environments and modules are users' own code: nothing that it raises or prints may leave their side."""

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

    Environments and modules are the user's own code: anything may be raised there. `failed` tells afterwards whether
    there was an error; it is as private as the data.

    Args:
        refusals: whether a ledger's refusals are raised (they have public numbers only); not where agents play.
    """

    failed = False

    def __init__(self, *, refusals: bool = False) -> None:
        self._lets_out = (KeyboardInterrupt, LedgerError) if refusals else (KeyboardInterrupt,)

    def __enter__(self) -> ErrorBarrier:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self.failed = error is not None and not isinstance(error, self._lets_out)
        return self.failed


@contextmanager
def silent() -> Iterator[None]:
    """Drop prints, warnings and logs of Python code: others than the agents read them."""
    disabled = logging.root.manager.disable
    with Path(os.devnull).open("w") as nowhere, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(sys.maxsize)
        try:
            with redirect_stdout(nowhere), redirect_stderr(nowhere):
                yield
        finally:
            logging.disable(disabled)
