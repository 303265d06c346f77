"""Trainable for a user's own `ray.tune.Tuner`, with the certificates of a sweep."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from ray import tune

from dprl.algorithms import ALGORITHMS
from dprl.platform.api import Config, content_of, plain
from dprl.platform.configs.config import cells_of, set_value
from dprl.platform.configs.experiment import Experiment
from dprl.platform.errors import UserError, broken_rule
from dprl.platform.results.cell_folder import CellFolder
from dprl.platform.sweeps.cell import CellRun
from dprl.platform.sweeps.ray_trials import resources_of
from dprl.privacy.threat_models import of_trials

_STATE = "state.npz"


def trainable(config: Config | None = None, /, **settings: Any) -> type[tune.Trainable]:  # noqa: ANN401
    """Return a trainable for `ray.tune.Tuner`: an experiment that `param_space` overrides by dotted keys.

    A trial is one run with the config's `seed`; vary `seed` for more runs. After each block of episodes it reports the
    columns of a sweep's records, including `episode`, and it saves its state as a Tune checkpoint. When it ends or a
    scheduler stops it, its folder has the files of a sweep's cell: certificate.json, records.parquet, policy.npz.

    The certificate names metrics that its guarantee does not cover. Choosing or stopping trials by them is not private
    at any epsilon. With `release: true` only covered metrics are reported.

    config, settings: as for `dprl.experiments`; `param_space` must override grids. Tuner.fit raises UserError for
    unknown keys and other mistakes in the first trial. If a later trial has a mistake, only that trial fails. A
    checkpoint cannot be loaded with other settings, so population-based training is refused. A run with
    `noise.entropy: os` cannot be resumed.
    """
    if isinstance(config, Experiment):
        config = {**config.as_mapping(), **({} if config.memory is None else {"memory": config.memory})}
    if not (config is None or isinstance(config, str | Path | Mapping)):
        raise broken_rule("config", "must be one experiment, a config or its name", config, "pass one of the list")
    members = {
        "__doc__": _Trial.__doc__,
        "base": content_of(config, settings),
        "functions": [each for each in ALGORITHMS.values() if hasattr(each, "source")],
    }
    return type("dprl", (_Trial,), members)


class _Trial(tune.Trainable):
    """Ray Tune trial that runs one experiment."""

    base: ClassVar[Mapping[str, Any]]
    functions: ClassVar[list[Any]]
    """Algorithms registered as functions in this session; workers do not have them in their registry."""
    _checked: ClassVar[bool] = False
    _run: CellRun

    @classmethod
    def experiment(cls, config: Mapping[str, Any]) -> Experiment:
        """Return the experiment of a trial. Raises UserError."""
        for function in cls.functions:
            ALGORITHMS.setdefault(function.name, function)
        raw = copy.deepcopy(dict(cls.base))
        for path, value in config.items():
            if path == "seeds":
                rule = "must not be in param_space: a trial has one seed"
                raise broken_rule("seeds", rule, value, "vary seed instead")
            set_value(raw, path.split("."), plain(value, path), path)
        cells = cells_of({**raw, "seeds": 1})
        if len(cells) != 1:
            remedy = "set the keys with grid_search in param_space"
            raise broken_rule("config", "must be one cell for each trial", f"a grid of {len(cells)}", remedy)
        if getattr(cells[0].env.builds, "holds_records", False) and cells[0].privacy.model != "none":
            rule = "must not hold users' records in a search: each trial is one more release of them"
            raise broken_rule("env", rule, cells[0].env.name, "write one config per release")
        return cells[0]

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> tune.PlacementGroupFactory:
        """Ask for one CPU and the experiment's memory. Raises UserError before the first trial, if it is invalid."""
        try:
            memory = cls.experiment(config).memory
        except UserError:
            if not cls._checked:
                raise
            return resources_of()  # only this trial will fail
        cls._checked = True
        return resources_of(memory=memory)

    def setup(self, config: dict[str, Any]) -> None:
        """Open the run of the trial's experiment. Raises UserError."""
        experiment, folder = self.experiment(config), Path(self.logdir)
        if self._storage is not None:
            folder = Path(self._storage.trial_fs_path)
            if self._storage.storage_filesystem.type_name != "local":
                raise broken_rule("storage_path", "must be a folder that every node sees", str(folder), "mount it")
        # Checkpoints may contain exact sums, and Tune copies them without their permissions.
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        # With the marker of a stopped trial, its restart would go unnoticed.
        CellFolder(folder).marker_file.unlink(missing_ok=True)
        uncovered = [metric.name for metric in experiment.metrics if not metric.covered]
        channels = of_trials(uncovered) if experiment.privacy.model != "none" else ()
        self._run = CellRun(experiment, CellFolder(folder), channels)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Run another trial in the same process."""
        self._run.write_partial()
        self.setup(new_config)
        return True

    def step(self) -> dict[str, Any]:
        """Run one block of episodes; return the last row of the records."""
        # The last checkpoint wrote artifacts with a marker, but the run goes on.
        self._run.folder.marker_file.unlink(missing_ok=True)
        progress = self._run.advance(0.0, keep=False)
        newest = {name: column[-1].item() for name, column in self._run.records().items()}
        return {**newest, "done": progress.finished}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Write the state and the certificate so far, because Tune saves before it stops a trial."""
        self._run.save(Path(checkpoint_dir) / _STATE)
        self._run.write_partial()

    def load_checkpoint(self, checkpoint: str) -> None:
        """Continue from a checkpoint of the same experiment. Raises UserError."""
        self.setup(self.config)
        if not self._run.experiment.resumable:
            rule = "must be 'seed' to continue a trial: noise from the operating system is not stored"
            raise broken_rule("noise.entropy", rule, "os", "use a scheduler that never pauses, e.g. ASHAScheduler")
        self._run.resume(Path(checkpoint) / _STATE)

    def cleanup(self) -> None:
        """Write the artifacts of a stopped trial."""
        self._run.write_partial()
