"""Python API for sweeps, certificates and audits, with the same objects as config files.

Examples:
    >>> import dprl
    >>> found = dprl.certify(
    ...     algorithm="private_ucb_vi", env={"name": "riverswim", "horizon": 10}, episodes=1000,
    ...     privacy=dprl.grid(model="jdp", epsilon=[1.0, 3.0]),
    ... )
    >>> [(each.verdict, round(each.proved_epsilon, 6)) for each in found]
    [('holds', 1.0), ('holds', 3.0)]
"""

from __future__ import annotations

import copy
import dataclasses
import html
import io
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dprl.envs import from_arrays, log_episodes, log_trajectories, mixture_of
from dprl.platform.configs.config import (
    cells_of,
    certificates_of,
    computed,
    planned_certificate,
    read_config,
    require_one_release,
)
from dprl.platform.configs.experiment import CHOOSERS, Experiment, labels_of
from dprl.platform.configs.grid import GRID
from dprl.platform.configs.memory import require_memory
from dprl.platform.configs.sections import GYMNASIUM_ID
from dprl.platform.environment_variables import tracking_uri as tracking_uri_of
from dprl.platform.environments import from_gymnasium, register_env
from dprl.platform.errors import UserError, broken_rule, counted, suggestion
from dprl.platform.plugins import register_function
from dprl.platform.results.cell_folder import CellFolder, DamagedCellError
from dprl.platform.results.certificates import CertificateSource, certificates_in, composed, verified
from dprl.platform.results.home import home_folder
from dprl.platform.results.layout import SweepLayout, sweep_layout
from dprl.platform.users_needed import users_needed
from dprl.privacy import Certificate
from dprl.privacy.designs.base import PrivacySettings
from dprl.privacy.verification import Verification

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from dprl.platform.policies.loading import Policy
    from dprl.platform.reports.charts import Chart
    from dprl.platform.sweeps.sweep import ExecutorName

__all__ = [
    "Experiment",
    "Sweep",
    "UserError",
    "algorithm",
    "audit",
    "certify",
    "compose",
    "experiments",
    "from_arrays",
    "from_gymnasium",
    "grid",
    "load",
    "log_episodes",
    "log_trajectories",
    "mixture_of",
    "register_env",
    "run",
    "sweep",
    "users_needed",
    "verify",
]

algorithm = register_function
"""Decorator: see `register_function`."""
Config = str | Path | Mapping[str, Any] | Experiment | Sequence[Experiment]
"""Path of a config file, name of one in tune_configs/, its content as a mapping, or experiments."""

_USUAL = {"name": "python", "seeds": 10}


def grid(*alternatives: object, **settings: object) -> dict[str, Any]:
    """Return a grid in the notation of config files: every alternative, or every combination of the settings' values.

    settings: one value each, or several as a list, tuple, range, 1-dimensional NumPy array or pandas Series.

    Examples:
        >>> grid(1, 2)
        {'grid_search': [1, 2]}
        >>> grid(model="jdp", epsilon=[1, 3])
        {'model': 'jdp', 'epsilon': {'grid_search': [1, 3]}}
        >>> grid(epsilon=range(1, 3))
        {'epsilon': {'grid_search': [1, 2]}}
        >>> grid({"model": "none"}, grid(model="jdp", epsilon=[1, 3]))  # beside a run without privacy
        {'grid_search': [{'model': 'none'}, {'model': 'jdp', 'epsilon': {'grid_search': [1, 3]}}]}

    Raises UserError if both or neither are given, and for an array of more dimensions.
    """
    if bool(alternatives) == bool(settings):
        raise UserError("grid: needs either alternatives or settings, got both or none; write e.g. grid(1, 2)")
    if alternatives:
        if any(isinstance(each, range) or getattr(each, "ndim", 0) for each in alternatives):
            raise broken_rule("grid", "must have values as alternatives", list(alternatives), "write grid(*values)")
        return {GRID: list(alternatives)}
    found = dict[str, Any]()
    for key, value in settings.items():
        shape = getattr(value, "shape", ())
        if len(shape) > 1:
            raise broken_rule(f"grid: {key}", "must be values of 1 dimension", f"shape {shape}", "write e.g. [1, 3]")
        several: Any = value.tolist() if shape else value  # type: ignore[attr-defined]
        found[key] = {GRID: list(several)} if isinstance(several, list | tuple | range) else value
    return found


def experiments(config: Config | None = None, **settings: Any) -> list[Experiment]:  # noqa: ANN401
    """Return the experiments of a config, one per cell of its grid, as `dprl sweep` would run them.

    config: see `Config`; None for settings alone. settings: sections and keys of a config, replacing those of `config`:
    a name (algorithm="bernstein_vi", privacy="none"), a mapping, a settings object, or a `grid` of them. Without a
    config the name is 'python' and there are 10 seeds.

    Raises UserError with rule, value and remedy.
    """
    if isinstance(config, Experiment):
        config = [config]
    if isinstance(config, Sequence) and not isinstance(config, str):
        if settings:
            raise broken_rule("settings", "go with a config file or a mapping", sorted(settings), "leave them out")
        require_one_release(config)
        return list(config)
    return cells_of(content_of(config, settings))


def content_of(config: str | Path | Mapping[str, Any] | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a config, overridden by `settings`, in the notation of YAML. Raises UserError."""
    if config is None:
        raw: dict[str, Any] = dict(_USUAL)
    else:
        raw = plain(copy.deepcopy(dict(config)), "") if isinstance(config, Mapping) else read_config(config)
        raw.setdefault("name", _USUAL["name"])
    return {**raw, **{key: plain(value, key) for key, value in settings.items()}}


def certify(config: Config | None = None, **settings: Any) -> list[Certificate]:  # noqa: ANN401
    """Return the certificate of each experiment, computed from the noise that a run would draw; nothing is run.

    The arguments are those of `experiments`. With `users` and `horizon` instead of a config, the result is one
    certificate of planned counts, see `planned_certificate`. Raises UserError, also for conflicting settings.

    Examples:
        >>> [plan] = certify(mechanism="gaussian", epsilon=1.0, delta=1e-6, users=1000, horizon=5)
        >>> plan.verdict, round(plan.epsilon_at_delta[1e-6], 6)
        ('holds', 1.0)
    """
    if config is None and "users" in settings:
        return [planned_certificate(settings)]
    cells = experiments(config, **{"seeds": 1, **settings} if config is None else settings)
    require_memory(cells, run=False)
    return certificates_of(cells)


def verify(certificate: CertificateSource) -> Verification:
    """Recompute a certificate from its own fields; `stands` and `differences` have the result.

    certificate: the path of a certificate.json or of a cell's folder, its content, or a `Certificate`. Raises UserError
    for a damaged certificate, and for one of an earlier schema.
    """
    found = certificates_in(certificate)
    if len(found) != 1:
        raise broken_rule("certificate", "must be one certificate", len(found), "verify them one by one")
    [(label, one)] = found.items()
    return verified(label, one)


def compose(*certificates: CertificateSource, disjoint: bool = False) -> Certificate:
    """Return the joint certificate of several runs, from the joint privacy curve of one user.

    certificates: as for `verify`. disjoint: whether no user is in two runs, so that the worst run counts. Raises
    UserError if one does not stand, if two paths lead to one run or to runs of equal settings and seed, or if trust
    model, adjacency or unit differ.
    """
    return composed(certificates, disjoint)


def audit(config: Config | None = None, *, runs: int | None = None, audit_seed: int = 0, **settings: Any) -> Any:  # noqa: ANN401
    """Attack the noise of each experiment; return a DataFrame with one row per attack.

    Columns: cell, name, claimed, proved and measured epsilon, verdict. Measured epsilons are lower bounds, those
    of one cell together wrong with probability 1e-6 at most; a claim is refuted if its epsilon is below one of them.

    config, settings: as for `experiments`. runs: samples per attack. audit_seed: random seed. Raises UserError.
    """
    import pandas as pd

    from dprl.platform.audits import DEFAULT_RUNS, audit_experiment

    cells = experiments(config, **{"seeds": 1, **settings} if config is None else settings)
    require_memory(cells, run=False)
    rows: list[dict[str, Any]] = []
    audits = computed(cells, lambda cell: audit_experiment(cell, runs or DEFAULT_RUNS, audit_seed))
    for label, findings in zip(labels_of(cells), audits, strict=True):
        for each in findings:
            measured = None if each.measurement is None else each.measurement.epsilon_lb
            epsilons = {"claimed": each.claim.epsilon, "proved": each.proof.epsilon, "measured": measured}
            rows.append({"cell": label, "name": each.name, **epsilons, "verdict": each.verdict})
    return pd.DataFrame(rows)


@dataclass(frozen=True)
class Sweep:
    """A sweep with finished cells: its table, certificates, records, policies and figures.

    A cell is given by its row in `frame`, from 0 on, by its label or by its digest.

    Args:
        layout: the sweep's folder. failed: one line per failed cell of the last call; of a loaded sweep, one per cell
            with a damaged certificate.
    """

    layout: SweepLayout
    failed: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the sweep."""
        return self.layout.name

    @property
    def folder(self) -> Path:
        """Folder with summary.csv, report.html and one folder per cell."""
        return self.layout.folder

    @cached_property
    def frame(self) -> pd.DataFrame:
        """One row per finished cell: its settings, metrics with intervals, and claimed and certified epsilon."""
        return self.layout.summary()

    def experiment(self, cell: int | str = 0) -> Experiment:
        """Return the experiment of a cell. Raises UserError."""
        return self._cell(cell).experiment()

    def certificate(self, cell: int | str = 0) -> dict[str, Any]:
        """Return the certificate of a cell as written to certificate.json. Raises UserError."""
        return self._cell(cell).certificate()

    def records(self, cell: int | str = 0) -> pd.DataFrame:
        """Return the metrics of a cell, one row per seed and recorded episode. Raises UserError."""
        return self._cell(cell).results().records

    def policy(self, cell: int | str = 0, seed: int | None = None) -> Policy:
        """Return the learned policy of one seed of a cell, by default of its first. Raises UserError."""
        from dprl.platform.policies.loading import load_policy

        return load_policy(self._cell(cell).path, seed)

    @property
    def figures(self) -> dict[str, str]:
        """Titles of the figures that `plot` can draw, by name."""
        return {name: chart.title for name, chart in self._charts.items()}

    def plot(
        self,
        figure: str = "frontier",
        *,
        style: str = "paper",
        width: float | None = None,
        height: float | None = None,
        colours: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Figure:
        """Return a figure of the sweep as a matplotlib figure.

        figure: one of `figures`. style: 'paper' or 'slides'. width, height: in inches. colours: of algorithms by name,
        as matplotlib takes them. labels: other words for the lines' labels, by the words that they replace. Raises
        UserError.
        """
        from dprl.platform.reports.drawing import draw, style_of

        if figure not in self._charts:
            remedy = suggestion(figure, list(self._charts))
            raise broken_rule("figure", f"must be a figure of {self.name}", figure, remedy)
        return draw(self._charts[figure], style_of(style, width, height), colours=colours, labels=labels)

    def report(self, out: str | Path | None = None) -> Path:
        """Write the report and return its page, in the sweep's folder or in `out`. Raises UserError if it cannot."""
        from dprl.platform.commands.base import unwritable
        from dprl.platform.reports.report import SweepReport

        found = SweepReport.of(self.layout.home, [self.name])
        place = self.folder if out is None else Path(out)
        try:
            return found.write(place, f"dprl.load({self.name!r}).report()", None)[0]
        except OSError as error:
            raise unwritable(place, error, "folder", "out") from None

    @cached_property
    def _charts(self) -> dict[str, Chart]:
        from dprl.platform.reports.charts import report_charts
        from dprl.platform.results.cells import read_cells

        return {chart.name: chart for chart in report_charts(read_cells([self.layout]))}

    def _cell(self, cell: int | str) -> CellFolder:
        digests, labels = self.frame["cell"].tolist(), self.frame["label"].astype(str).tolist()
        names = [*labels, *digests]
        row = names.index(cell) % len(digests) if names.count(cell) == 1 else cell
        if type(row) is not int or not 0 <= row < len(digests):
            rule = f"must be a row of frame, 0 to {len(digests) - 1}, or the label or digest of one cell"
            valid = labels if len({*labels}) == len(labels) else digests
            raise broken_rule("cell", rule, cell, suggestion(cell, valid))
        return CellFolder(self.layout.cell_folder(digests[row]))

    def __repr__(self) -> str:
        return f"<Sweep {self.name}: {counted(len(self.layout.finished_cells()), 'cell')} done, {self.folder}>"

    def __str__(self) -> str:
        from dprl.platform.reports.tables import write_summary

        text = io.StringIO()
        write_summary(text, self.frame)
        return f"{self.name}\n{text.getvalue().rstrip()}"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def load(name: str | Path, *, storage: str | Path | None = None) -> Sweep:
    """Return a sweep with finished cells, given by its name or its folder.

    storage: folder of all results, by default $DPRL_HOME or ./dprl_runs. Warns of every cell with a certificate that
    was edited or is damaged otherwise. Raises UserError.
    """
    layout = sweep_layout(home_folder(_text(storage), written=False), str(name))
    damaged = list[str]()
    for cell in layout.require_finished():
        try:
            cell.certificate()
        except DamagedCellError as error:
            damaged.append(str(error))
            warnings.warn(str(error), stacklevel=2)
    return Sweep(layout, tuple(damaged))


def run(config: Config | None = None, **settings: Any) -> Sweep:  # noqa: ANN401
    """Run every cell in this process, without Ray, and return the sweep; arguments as those of `sweep`."""
    return _sweep("process", config, settings)


def sweep(config: Config | None = None, **settings: Any) -> Sweep:  # noqa: ANN401
    """Run every cell as a Ray Tune trial and return the sweep; repeat the call to resume it.

    Further arguments, besides those of `experiments`: storage, the folder of all results (default: $DPRL_HOME or
    ./dprl_runs); tracking_uri of MLflow (default: $MLFLOW_TRACKING_URI, or a database in `storage`); address of a
    running Ray cluster (default: this machine); fresh=True to delete earlier results; quiet=True to show only problems.

    Failed cells are listed in `Sweep.failed`. Raises UserError if nothing could start, or no cell was finished.
    """
    return _sweep("tune", config, settings)


def _sweep(executor: ExecutorName, config: Config | None, settings: dict[str, Any]) -> Sweep:
    from dprl.platform.sweeps.sweep import SweepOptions, run_sweep

    address, fresh, quiet = settings.pop("address", None), settings.pop("fresh", False), settings.pop("quiet", False)
    home, uri = home_folder(_text(settings.pop("storage", None))), tracking_uri_of(settings.pop("tracking_uri", None))
    cells = experiments(config, **settings)
    require_memory(cells, run=True, here=address is None)
    certificates_of(cells)
    name = cells[0].name if cells else _USUAL["name"]
    again = f"the same call of dprl.{'run' if executor == 'process' else 'sweep'}"
    result = run_sweep(cells, SweepOptions(str(name), home, executor, address, uri, bool(fresh), again, bool(quiet)))
    for line in result.unwritten:
        raise UserError(line)
    found = Sweep(SweepLayout(home.resolve(), str(name)), tuple(result.failed))
    if not len(result.summary):
        raise UserError(f"{name}: no cell was finished: {result.failed[0]}")
    return found


def _text(path: str | Path | None) -> str | None:
    return None if path is None else str(path)


def plain(value: object, section: str) -> Any:  # noqa: ANN401
    """Return a value of a config in the notation of YAML: names and settings objects as mappings."""
    if isinstance(value, Mapping):
        if GRID in value:
            return {**value, GRID: [plain(each, section) for each in value[GRID]]}
        return {key: plain(each, key if not section else "") for key, each in value.items()}
    if section in CHOOSERS:
        key = CHOOSERS[section]
        if section == "env" and (hasattr(value, "unwrapped") or GYMNASIUM_ID.search(str(value))):
            call = f"from_gymnasium({value!r}, horizon=20)" if isinstance(value, str) else "from_gymnasium(env)"
            raise broken_rule("env", "must be a name of `dprl list envs` or a settings object", value, f"write {call}")
        if isinstance(value, str):
            return {key: value}
        if isinstance(value, type) and hasattr(value, key):
            return {key: getattr(value, key)}
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            told = value.to_dict() if isinstance(value, PrivacySettings) else dataclasses.asdict(value)
            fields = {name: each.tolist() if hasattr(each, "tolist") else each for name, each in told.items()}
            return {key: getattr(value, key), **fields}
    if hasattr(value, "tolist"):
        return value.tolist()  # of NumPy or pandas
    return list(value) if isinstance(value, tuple) else value
