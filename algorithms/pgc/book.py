"""Ledger of a run on disk: the agents asked so far, also after a crash."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dprl.privacy import (
    ChargeJournal,
    ClientSpec,
    GradientPrivatizer,
    GradientQuery,
    LedgerError,
    PrivateMessages,
    SubmissionRange,
)
from dprl.privacy.queries.gradients import GradientEstimates

JOURNAL = "submissions.journal"


def folder_of_run(chosen: str | None, trial: Any) -> Path:  # noqa: ANN401 - Ray Tune's storage, None outside of it
    """Return the folder of a new run's ledger; nothing is created before the first charge.

    chosen: the user's choice; each trial of a sweep has a folder below it. Default: the trial's own folder on the
    sweep's storage, or else a new one in `./dprl_runs/ledgers`, or below `$DPRL_HOME`.

    Raises:
        ValueError: if the storage is not a file system that can append, or `chosen` is not an absolute path.
    """
    if chosen is not None:
        if not Path(chosen).is_absolute():
            raise ValueError(f"folder must be an absolute path, got {chosen!r}; a trial has another working directory")
        return Path(chosen) if trial is None else Path(chosen) / trial.trial_dir_name
    if trial is None:
        home = Path(os.environ.get("DPRL_HOME") or "dprl_runs").absolute()
        return home / "ledgers" / secrets.token_hex(8)
    if trial.storage_filesystem.type_name != "local":
        raise ValueError(
            f"ledger must be on a file system that can append, got storage of type "
            f"{trial.storage_filesystem.type_name}; call ledger(folder=...) with a folder that all nodes share"
        )
    return Path(trial.trial_fs_path)


@dataclass(frozen=True)
class Entry:
    """Reference to a ledger in a checkpoint: its place, its least number of submissions, and its identity."""

    folder: str
    charged: int
    identity: str


class Book:
    """Privatizer of a run with its journal; the journal is opened before the first agent is asked.

    *Formal guarantee.* A submission is in the journal before its lease exists. A resumed run continues the journal:
    agents in it are never asked again.

    Args:
        build: makes the privatizer of the run with a journal.
        folder: of the journal.
    """

    def __init__(self, build: Callable[[ChargeJournal], GradientPrivatizer], folder: Path) -> None:
        self._build = build
        self._refused: tuple[str, Entry] | None = None
        self._turn_to(folder)

    def _turn_to(self, folder: Path, identity: str | None = None) -> None:
        journal = ChargeJournal(folder / JOURNAL, identity=identity)
        self.privatizer = self._build(journal)
        self.folder, self._journal, self._begun = folder, journal, False

    def lease(self, k: int) -> SubmissionRange:
        """Charge the next k submissions, first in the journal, and return the lease on them.

        Raises LedgerError if fewer agents are left, another run has the journal, or it is gone.
        """
        if self._refused is not None:
            raise LedgerError(self._refused[0])
        if not self._begun:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._begun = True
        return self.privatizer.lease(k)

    def client_spec(self) -> ClientSpec[GradientQuery]:
        """Return the spec from which runners build a sender."""
        return self.privatizer.client_spec

    def accept(self, messages: PrivateMessages) -> GradientEstimates:
        """Return the content of messages, each of them once."""
        found: GradientEstimates = self.privatizer.accept(messages)
        return found

    def entry(self) -> Entry:
        """Return the reference for a checkpoint, after syncing all charges to the disk."""
        if self._refused is not None:
            # A checkpoint of a run that could not continue must not continue either.
            return self._refused[1]
        self._journal.sync()
        return Entry(str(self.folder), self.privatizer.charged, self._journal.identity)

    def resume(self, entry: Entry) -> None:
        """Continue the ledger of a checkpoint, here or at its old place; without it nothing can be leased."""
        self.close()
        # A sweep's folder may have been moved as a whole, with checkpoints and journals.
        with suppress(LedgerError):
            self._turn_to(self.folder, entry.identity)
            if self.privatizer.charged >= max(1, entry.charged):
                return
        folder = Path(entry.folder)
        try:
            self._turn_to(folder, entry.identity)
        except LedgerError as error:
            # Without its ledger a checkpoint can be used, but not trained.
            self._refused = (str(error), entry)
            return
        if self.privatizer.charged < entry.charged:
            why = (
                f"journal {folder / JOURNAL} must hold the {entry.charged} submissions of the checkpoint, got "
                f"{self.privatizer.charged}: nobody knows who was asked; bring it back, or start a run with new agents"
            )
            self._refused = (why, entry)

    def close(self) -> None:
        """Let others write the journal."""
        self._journal.close()
