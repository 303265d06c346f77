"""What goes wrong on the agents' side stays there: an exception, or a line in a log, would carry their data out."""

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


class Sealed:
    """A `with` block whose errors are dropped, also those by which somebody's code wants to end the process.

    Environments and modules are the user's own code: anything may be raised there. `failed` says afterwards whether
    something went wrong; it is as private as the data.

    Args:
        refusals: whether a ledger's refusals come out, which speak of public numbers only; not where agents play.
    """

    failed = False

    def __init__(self, *, refusals: bool = False) -> None:
        self._lets_out = (KeyboardInterrupt, LedgerError) if refusals else (KeyboardInterrupt,)

    def __enter__(self) -> Sealed:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self.failed = error is not None and not isinstance(error, self._lets_out)
        return self.failed


@contextmanager
def silent() -> Iterator[None]:
    """Drop what Python code prints, warns of and logs meanwhile: logs are read by others than the agents."""
    disabled = logging.root.manager.disable
    with Path(os.devnull).open("w") as nowhere, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(sys.maxsize)
        try:
            with redirect_stdout(nowhere), redirect_stderr(nowhere):
                yield
        finally:
            logging.disable(disabled)
