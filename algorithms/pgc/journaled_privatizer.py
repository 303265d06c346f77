"""Privatizer with a journal on disk: no agent is asked twice, even after a crash."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dprl.algorithms.base import Float64Array
from dprl.privacy import GradientPrivatizer, LedgerError, PrivateMessages, SubmissionRange
from dprl.privacy.journal import ChargeJournal

JOURNAL = "submissions.journal"


def journal_folder(chosen: str | None, trial: Any) -> Path:  # noqa: ANN401 - Ray Tune's storage, None outside of it
    """Return the folder of a new run's journal; nothing is created before the first charge.

    chosen: the user's choice; each trial of a sweep has a folder below it. By default it is the trial's folder on the
    sweep's storage, or without Tune a new folder in `./dprl_runs/ledgers` or below `$DPRL_HOME`.

    Raises:
        ValueError: if the storage is not a file system that can append, or `chosen` is not an absolute path.
    """
    if chosen is not None:
        if not Path(chosen).is_absolute():
            raise ValueError(f"folder must be an absolute path, got {chosen!r}; trials have other working directories")
        return Path(chosen) if trial is None else Path(chosen) / trial.trial_dir_name
    if trial is None:
        home = Path(os.environ.get("DPRL_HOME") or "dprl_runs").absolute()
        return home / "ledgers" / secrets.token_hex(8)
    if trial.storage_filesystem.type_name != "local":
        raise ValueError(
            f"ledger must be on a file system that supports appending, got storage of type "
            f"{trial.storage_filesystem.type_name}; call ledger(folder=...) with a folder that all nodes share"
        )
    return Path(trial.trial_fs_path)


@dataclass(frozen=True)
class _JournalReference:
    """Reference to a journal in a checkpoint: its folder, its least number of submissions, and its identity."""

    folder: str
    charged: int
    identity: str


class JournaledPrivatizer:
    """Privatizer that writes its charges to a journal, and continues the journal of a checkpoint.

    *Formal guarantee.* A submission is in the journal before its lease exists. A resumed run continues the journal:
    agents in it are never asked again.

    build: returns a new privatizer of the run. folder: of the journal.
    """

    def __init__(self, build: Callable[[], GradientPrivatizer], folder: Path) -> None:
        self._build = build
        self._refused: tuple[str, _JournalReference] | None = None
        self._open(folder)

    def _open(self, folder: Path, identity: str | None = None) -> None:
        self.folder, self._journal = folder, ChargeJournal(folder / JOURNAL, identity=identity)
        self.privatizer = self._build()
        self.privatizer.persist(self._journal)

    def lease(self, k: int, needed: int = 0) -> SubmissionRange:
        """Return `Privatizer.lease`, charged in the journal first.

        Raises LedgerError if fewer agents are left, if another run has the journal, or if it is gone.
        """
        self._prepare()
        return self.privatizer.lease(k, needed)

    def charge_all(self) -> None:
        """Charge the whole population, for sampled rounds, unless it is charged. Raises LedgerError like `lease`."""
        self._prepare()
        if self.privatizer.charged == 0:
            self.privatizer.charge(1, self.privatizer.capacity)

    def _prepare(self) -> None:
        if self._refused is not None:
            raise LedgerError(self._refused[0])
        if self.privatizer.charged == 0:
            self.folder.mkdir(parents=True, exist_ok=True)

    def accept(self, *messages: PrivateMessages) -> Float64Array:
        """Return the content of messages, each of them once; a trusted server reads all messages of a sum together."""
        found: Float64Array = self.privatizer.accept(*messages)
        return found

    def reference(self) -> _JournalReference:
        """Return the reference for a checkpoint."""
        if self._refused is not None:
            # A checkpoint of a run that could not continue must not be resumed, either.
            return self._refused[1]
        return _JournalReference(str(self.folder), self.privatizer.charged, self._journal.identity)

    def resume(self, reference: _JournalReference) -> None:
        """Continue the journal of a checkpoint, in this folder or its old one; without it nothing can be leased."""
        self.close()
        # A sweep's folder may have been moved as a whole, with checkpoints and journals.
        with suppress(LedgerError):
            self._open(self.folder, reference.identity)
            if self.privatizer.charged >= max(1, reference.charged):
                return
        self.close()
        folder = Path(reference.folder)
        try:
            self._open(folder, reference.identity)
            if self.privatizer.charged < reference.charged:
                raise LedgerError(
                    f"journal {folder / JOURNAL} must hold the {reference.charged} submissions of the checkpoint, got "
                    f"{self.privatizer.charged}: it is unknown who was asked; restore it, or start a run with new "
                    "agents"
                )
        except LedgerError as error:
            # Without its journal a checkpoint can be evaluated but not trained.
            self._refused = (str(error), reference)

    def close(self) -> None:
        """Close the journal, so that others can write it."""
        self._journal.close()
