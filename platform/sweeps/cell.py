"""Grid cell with all its seeds: it runs in slices of time and survives a kill at any moment."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import re
import subprocess
import time
import zipfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numba import NumbaError

from dprl import __version__
from dprl.algorithms import Learner
from dprl.atomic_files import read_arrays, remove_leftovers, write_arrays, write_atomically, write_json, write_text
from dprl.platform.audits import attached_audit
from dprl.platform.configs.experiment import Experiment
from dprl.platform.configs.memory import seeds_at_once
from dprl.platform.errors import UserError, broken_rule
from dprl.platform.plugins import PLUGIN_ERRORS, require_digested_modules
from dprl.platform.results.cell_folder import CellFolder
from dprl.platform.results.layout import SweepCell
from dprl.platform.results.summary import columns, per_episode
from dprl.platform.sweeps.events import CellProgress
from dprl.privacy import LedgerError
from dprl.privacy.certificate import sealed
from dprl.privacy.journal import ChargeJournal
from dprl.sources import results_version

BLOCKS = 200
"""Records per seed at most; a block is also the unit of work, so that where a run is cut changes no sum."""

STEP_SECONDS = 1.0
"""Between two checkpoints of a cell, and two reports."""
_WORK_PER_SAVING = 10.0  # seconds of work for every second that a checkpoint takes: large counters make large ones
CELL_ERRORS = (UserError, *PLUGIN_ERRORS)
"""Errors that end one cell. Any other error stops the sweep."""

_LEARNER, _POLICIES = "learner/", "policies/"
_LONGEST_DAMAGE = 100
_OF_ATTEMPTS = {*("attempts", "users_asked_again", "users", "proved", "verdict", "factor"), "episodes_per_user"}
"""Fields of a certificate that depend on how often a seed was started again."""
_DAMAGE = (OSError, ValueError, KeyError, TypeError, IndexError, EOFError, zipfile.BadZipFile)
"""Errors of reading a damaged checkpoint."""


def block_ends(episodes: int) -> np.ndarray:
    """Return the last episode of each block, int64[at most 200], rising to `episodes`.

    Half of them are evenly spaced; the others are dense at the start, where learning without privacy is quick:
    episodes 1, 2, 3, ..., each later one about (episodes)^(1/99) times the one before.
    """
    if episodes <= BLOCKS:
        return np.arange(1, episodes + 1, dtype=np.int64)
    half = BLOCKS // 2
    # Python's integers: 100 * episodes need not fit into 64 bits.
    even = {(i + 1) * episodes // half for i in range(half)}
    early = {round(episodes ** (i / (half - 1))) for i in range(half)}
    return np.array(sorted(even | early), dtype=np.int64)


class LockedCell:
    """Runs one cell of a sweep on `cpus` CPUs at most, holding its lock from the first step until `close`."""

    def __init__(self, cell: SweepCell, cpus: int = 1) -> None:
        self.cell = cell
        self._cpus = cpus
        self._lock = cell.lock()
        self._run: CellRun | None = None

    def advance(self, seconds: float = STEP_SECONDS) -> CellProgress:
        """Run for about `seconds`, longer if checkpoints take long, and leave one.

        Raises UserError while another process has the cell, and if the code has changed since the cell was named
        (this process may have started later).
        """
        if self._run is None:
            named = self.cell.folder.path.name
            if self.cell.digest != named:
                wrong = f"code: must not change while a sweep runs, got other sources than those of cell {named}"
                raise UserError(f"{wrong}; start the sweep again with --fresh or --name")
            # In this order: read the previous holder's files only after it has released the lock.
            self._lock.acquire()
            self._run = CellRun(self.cell.experiment, self.cell.folder, cpus=self._cpus)
        return self._run.advance(max(seconds, _WORK_PER_SAVING * self._run.saving))

    def close(self) -> None:
        """Release the lock."""
        self._run = None
        self._lock.release()


class CellRun:
    """Runs the seeds of an experiment in `folder` on up to `cpus` threads, from where the last process stopped.

    The same experiment gives the same records bit for bit, for any number of interruptions and threads. `state.npz`
    holds the records so far and the learners of the running seeds; it is replaced atomically, so a kill may lose work
    but not corrupt it. After an interruption, the repeated blocks draw the same noise: they repeat a release and do
    not make a second one. So does a cell that starts again because its checkpoint is damaged; `progress` says
    so. If noise comes from the operating system, starting again is a second release to the same users. Therefore every
    charge is on disk before its release, in a journal beside the cell's folder, and the certificate composes all
    attempts. Raises UserError if the checkpoint or a journal of such a cell is damaged, missing or from another run.

    excluded: channels that the certificate names as not covered, in addition to those of the run. cpus: at least 1;
    `seeds_at_once` gives the number of seeds that learn at once.
    """

    def __init__(self, experiment: Experiment, folder: CellFolder, excluded: Sequence[str] = (), cpus: int = 1) -> None:
        self.experiment = experiment
        self.folder = folder
        self._excluded = excluded
        self._threads = seeds_at_once(experiment, cpus)
        self._pool = ThreadPoolExecutor(self._threads) if self._threads > 1 else None
        self.ends = block_ends(experiment.episodes)
        self._rows: list[list[list[float]]] = []  # of a seed: for each block its metrics, in the order of `_names`
        self._names = [metric.name for metric in experiment.metrics]
        self._policies: list[dict[str, np.ndarray]] = []
        self._certificates: list[dict[str, Any]] = []
        self._basis: dict[str, Any] = {}  # what was known of the run before it started, see `CellResults`
        self._seconds = 0.0
        self.saving = 0.0
        """Seconds that the last checkpoint took."""
        self._learners: dict[int, Learner] = {}
        self._journal: ChargeJournal | None = None
        self._identity: str | None = None  # of the journal that a cut seed began
        self._restarted = ""
        if not folder.finished:
            remove_leftovers(folder.path)
            if folder.state_file.exists():
                self._load()

    @property
    def progress(self) -> CellProgress:
        """Progress of the cell."""
        total = self.experiment.episodes * self.experiment.seeds
        if self.folder.finished:
            return CellProgress(total, total, self.experiment.seeds - 1, True, self._restarted)
        done = sum(int(self.ends[len(rows) - 1]) for rows in self._rows if rows)
        return CellProgress(done, total, min(len(self._policies), self.experiment.seeds - 1), False, self._restarted)

    def advance(self, seconds: float, keep: bool = True) -> CellProgress:
        """Run for about `seconds`, at least one block; leave a checkpoint or, at the end, the artifacts.

        keep: False if the caller saves checkpoints itself.
        """
        if self.folder.finished:
            return self.progress
        started = time.perf_counter()
        while not self._complete:
            self._run_blocks(started + seconds)
            if time.perf_counter() - started >= seconds:
                break
        ended = time.perf_counter()
        self._seconds += ended - started
        # A plugin may have imported late: before anything is kept, the code that ran must match the cell's digest.
        require_digested_modules([self.experiment.env])
        if not self.experiment.resumable or (keep and not self._complete):
            # Save noise that cannot be redrawn before the artifacts: a kill in between must not cause a second release.
            self.save(self.folder.state_file)
            self.saving = time.perf_counter() - ended
        if self._complete:
            self._write_artifacts()
        return self.progress

    @property
    def _complete(self) -> bool:
        return len(self._policies) == self.experiment.seeds and not self._learners

    def _run_blocks(self, deadline: float) -> None:
        """Run the first unfinished seeds, one thread each, until they end or a block ends after `deadline`.

        No thread waits for another within its seed. deadline: by `time.perf_counter`.
        """
        first = len(self._policies)
        running = range(first, min(first + self._threads, self.experiment.seeds))
        for seed in running:
            if seed not in self._learners:
                self._learners[seed] = self._built(seed)
                self._rows.append([])
        each = map if self._pool is None else self._pool.map
        for _ in each(partial(self._run_seed, deadline=deadline), running):
            pass
        while first in self._learners and len(self._rows[first]) == len(self.ends):
            self._add_outputs(self._learners.pop(first))
            first += 1
            if self._journal is not None:
                self._journal.close()
                self._journal = None

    def _run_seed(self, seed: int, deadline: float) -> None:
        """Run an unfinished seed block by block until the deadline has passed; append the metrics of each block."""
        rows = self._rows[seed]
        while len(rows) < len(self.ends):
            length = int(self.ends[len(rows)]) - (int(self.ends[len(rows) - 1]) if rows else 0)
            try:
                segment = self._learners[seed].learn(length)
            except LedgerError as error:
                raise UserError(str(error)) from error
            rows.append([segment[name] for name in self._names])
            if time.perf_counter() >= deadline:
                break

    def _add_outputs(self, algorithm: Learner) -> None:
        self._policies = [*self._policies, algorithm.policies]
        self._basis = {"theorem": algorithm.theorem or "", "derived": dict(algorithm.derived)}
        self._certificates = [*self._certificates, algorithm.certificate().to_dict()]

    def write_partial(self) -> None:
        """Write the artifacts of a run that may end now: the finished seeds, or else the first seed's blocks so far."""
        if self.folder.finished or not self._rows:
            return
        before = self._policies, self._basis, self._certificates
        if self._learners and not self._policies:
            self._add_outputs(self._learners[0])
        try:
            self._write_artifacts()
        finally:
            self._policies, self._basis, self._certificates = before

    def _built(self, seed: int) -> Learner:
        """Return the learner of a seed; noise from the operating system needs a journal. Raises UserError."""
        if self.experiment.resumable:
            return self.experiment.build(seed)
        file = self.folder.charges_file(seed)
        file.parent.mkdir(parents=True, exist_ok=True)
        self._journal = ChargeJournal(file, identity=self._identity, continues=False)
        self._identity = None
        try:
            return self.experiment.build(seed, self._journal)
        except LedgerError as error:
            raise UserError(str(error)) from error

    def save(self, file: Path) -> None:
        """Write a checkpoint to `file`."""
        about = {
            "digest": self.experiment.digest,
            "seconds": self._seconds,
            "certificates": self._certificates,
            "basis": self._basis,
            "cut": bool(self._learners),
            "journal": None if self._journal is None else self._journal.identity,
        }
        # A learner cannot continue if its noise must not be written down: its seed starts over, with fresh noise.
        resumable = self.experiment.resumable
        kept = self._rows if resumable else self._rows[: len(self._policies)]
        flat = [row for rows in kept for row in rows]
        arrays = {
            "about": np.array(json.dumps(about)),
            "ends": self.ends,
            "blocks": np.array([len(rows) for rows in kept], dtype=np.int64),
            "rows": np.array(flat, dtype=np.float64).reshape(len(flat), len(self._names)),
        }
        arrays |= {_POLICIES + name: table for name, table in self._tables().items()}
        for seed, learner in self._learners.items() if resumable else ():
            arrays |= {f"{_LEARNER}{seed}/{key}": array for key, array in learner.state_dict().items()}
        # Under jdp the learner's state holds exact counts: by the certificate, they stay with the server.
        write_arrays(file, arrays, private=True)

    def resume(self, file: Path) -> None:
        """Continue a new run from the checkpoint in `file`. Raises UserError if it is damaged, or of another cell."""
        try:
            self._continue(read_arrays(file))
        except _DAMAGE as error:
            rule = "must be one of the same settings, seed and code"
            remedy = "keep settings fixed within a trial: population-based training changes them"
            raise broken_rule("checkpoint", rule, str(error), remedy) from error

    def _load(self) -> None:
        """Continue from the checkpoint, or start again if it is damaged. Raises UserError, OSError."""
        try:
            self._continue(read_arrays(self.folder.state_file))
        except _DAMAGE as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # The file may be intact but unreachable at the moment.
            told = f"{self.folder.state_file.name}: {type(error).__name__}: {' '.join(str(error).split())}"
            damage = told[:_LONGEST_DAMAGE]
            if not self.experiment.resumable:
                raise UserError(second_release(damage, self.folder.path)) from None
            self._restarted = f"starts again, its checkpoint cannot be read ({damage})"
            self._rows, self._policies, self._certificates = [], [], []
            self._basis, self._seconds, self._learners = {}, 0.0, {}

    def _continue(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from the arrays of a checkpoint. Raises ValueError, KeyError, TypeError if they do not fit."""
        about = json.loads(str(arrays["about"]))
        if about["digest"] != self.experiment.digest:
            raise ValueError(f"it is of cell {about['digest']}")
        if not np.array_equal(arrays["ends"], self.ends):
            raise ValueError("its blocks are those of another version")
        ends = np.cumsum(arrays["blocks"])
        self._rows = [arrays["rows"][end - n : end].tolist() for n, end in zip(arrays["blocks"], ends, strict=True)]
        tables = _below(_POLICIES, arrays)
        self._policies = [dict(zip(tables, each, strict=True)) for each in zip(*tables.values(), strict=True)]
        self._certificates = about["certificates"]
        self._basis = about["basis"]
        self._seconds = float(about["seconds"])
        if about.get("cut") and not self.experiment.resumable:
            seed = len(self._policies) + 1
            self._restarted = (
                f"seed {seed} was interrupted and starts again with new noise: its users are asked again, and the "
                "certificate composes both attempts: a claim that was met exactly fails; request a larger epsilon, or "
                "run under another name with new users"
            )
            self._identity = about["journal"]
            if not self.folder.charges_file(seed - 1).exists():
                raise UserError(
                    f"{self.folder.charges_file(seed - 1)} must hold the users that seed {seed} has asked, got no such "
                    "file: it is unknown who was asked; restore the latest, or run under another name with new users"
                )
        for seed in range(len(self._policies), len(self._rows)):
            self._learners[seed] = self.experiment.build(seed)
            self._learners[seed].load_state_dict(_below(f"{_LEARNER}{seed}/", arrays))

    def records(self) -> dict[str, np.ndarray]:
        """Return the records of the finished seeds, or else of the first so far, in the order of `columns`."""
        n_metrics = len(self._names)
        seeds = self._rows[: len(self._policies)] or self._rows[:1]
        blocks = len(seeds[0]) if seeds else len(self.ends)
        ends, rows = self.ends[:blocks], np.array(seeds, dtype=np.float64).reshape(len(seeds), blocks, n_metrics)
        found = {
            "seed": np.repeat(np.arange(len(seeds), dtype=np.int64) + self.experiment.seed, blocks),
            "episode": np.tile(ends, len(seeds)),
        }
        for i, metric in enumerate(self.experiment.metrics):
            values = rows[:, :, i]
            if metric.over == "sum":
                found[metric.name] = np.cumsum(values, axis=1).ravel()
                found[per_episode(metric)] = (values / np.diff(ends, prepend=0)).ravel()
            else:
                found[metric.name] = values.ravel()
        return {name: found[name] for name in columns(self.experiment.metrics)}

    def _tables(self) -> dict[str, np.ndarray]:
        """Return the finished seeds' policies, each table with one entry per seed."""
        names = self._policies[0] if self._policies else {}
        return {name: np.array([policies[name] for policies in self._policies]) for name in names}

    def certificate(self) -> dict[str, Any]:
        """Return the worst certificate of all seeds; seeds with equally many attempts must have the same one."""
        worst = max(self._certificates, key=lambda one: (one["attempts"], one["users_asked_again"]))
        for other in self._certificates:
            differing = {key for key in worst if other[key] != worst[key]} - {"checksum"}
            same = differing <= ({"users_asked_again"} if other["attempts"] == worst["attempts"] else _OF_ATTEMPTS)
            if not same:
                raise RuntimeError("the seeds of one cell released different things; their ledgers must agree")
        return sealed({**worst, "excluded_channels": [*worst["excluded_channels"], *self._excluded]})

    def _write_artifacts(self) -> None:
        """Write all artifacts, the marker last: a folder with the marker is complete."""
        folder, records, certificate = self.folder, pd.DataFrame(self.records()), self.certificate()
        if self.experiment.audit and self._complete:
            certificate = sealed(certificate | {"audit": attached_audit(self.experiment)})
        # With its own name: `dprl run` on this file then repeats the cell in a separate sweep.
        own = replace(self.experiment, name=f"{self.experiment.name[:80]}-{self.experiment.digest}")
        write_text(folder.experiment_file, own.to_yaml())
        write_json(folder.certificate_file, certificate)
        write_atomically(folder.records_file, lambda file: records.to_parquet(file, index=False))
        seeds = np.unique(records["seed"])
        write_arrays(folder.policy_file, {"seed": seeds, **self._tables()})
        write_json(folder.versions_file, versions())
        done = {"digest": self.experiment.digest, "seconds": round(self._seconds, 3), **self._basis}
        write_json(folder.marker_file, done)
        if self._complete:
            folder.state_file.unlink(missing_ok=True)


def second_release(damage: str, folder: Path) -> str:
    """Return the error message for a damaged cell with noise from the operating system."""
    return (
        f"{damage}; its noise cannot be drawn again, so a rerun is a second release to the same users: "
        f"restore {folder} from a backup, or delete it to permit that: its users are then charged for both"
    )


_COLOUR = re.compile("\x1b\\[[0-9;]*m")
_PLACE = re.compile(r"(?: at |File \")([^\s\"]+\.py)(?: \(|\", line )(\d+)")


def cause_of(error: BaseException) -> str:
    """Return the error of a cell as one line; for a kernel that does not compile, the place and the first reason."""
    text = _COLOUR.sub("", str(error))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not isinstance(error, NumbaError):
        return f"{type(error).__name__}: {next(iter(lines), 'no message')}"
    own = next((f" at {Path(file).name}:{n}" for file, n in _PLACE.findall(text) if "site-packages" not in file), "")
    reason = next((line for line in lines if not line.startswith(("Failed in nopython mode", "File "))), "no message")
    return f"KernelError: does not compile{own}: {reason}; write it in the part of Python that Numba compiles"


def _below(prefix: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the arrays with keys that begin with `prefix`, without it."""
    return {key.removeprefix(prefix): array for key, array in arrays.items() if key.startswith(prefix)}


@cache
def versions() -> dict[str, Any]:
    """Return the versions that affect a result: interpreter, packages, results, processor, commit (if any)."""
    found: dict[str, Any] = {"python": platform.python_version(), "dprl": __version__}
    for package in ("numpy", "numba", "scipy", "pandas", "pyarrow", "gymnasium", "ray", "mlflow"):
        found[package] = None
        with suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    cpu, commit, top = platform.machine(), None, Path(__file__).resolve().parents[2]
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        cpu = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), cpu)
    if (top / ".git").exists():
        words = ["git", "-C", str(top), "describe", "--always", "--exclude=*", "--abbrev=40", "--dirty=+changes"]
        with suppress(OSError, subprocess.SubprocessError):
            done = subprocess.run(words, capture_output=True, text=True, timeout=10, check=True)
            commit = done.stdout.strip()
    return found | {"results_version": results_version(), "cpu": cpu, "git_commit": commit}
