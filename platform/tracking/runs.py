"""MLflow runs that belong to a sweep, despite equal names of other sweeps and duplicate runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mlflow.entities import Run
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from dprl.platform.errors import broken_rule
from dprl.platform.tracking.store import TrackingStore, experiment_name

SWEEP, SWEEP_ID = "sweep", "sweep_id"
DIGEST, PARENT, RECORDED = "digest", "mlflow.parentRunId", "recorded"
"""Tags. `sweep` is for people; `sweep_id` distinguishes sweeps of one name; `recorded` marks complete cells."""

# Without it MLflow's pages may show the experiment as one of language models, without curves.
_EXPERIMENT_TAGS = {"mlflow.experimentKind": "custom_model_development"}
_EXISTS = "RESOURCE_ALREADY_EXISTS"
_PAGE = 1000


class _Adopted(NamedTuple):
    """Runs of one sweep. parent: '' if there is none. cells: by digest. surplus: duplicates."""

    parent: str
    cells: Mapping[str, Run]
    surplus: Sequence[str]


def find_experiment(client: MlflowClient, store: TrackingStore) -> str:
    """Return the experiment of all sweeps; create it if necessary. Raises UserError if it was deleted."""
    name = experiment_name()
    found = client.get_experiment_by_name(name)
    if found is None:
        root = store.artifact_root
        try:
            return str(client.create_experiment(name, root.as_uri() if root is not None else None, _EXPERIMENT_TAGS))
        except MlflowException as error:
            # Another process has created it meanwhile, or the answer to our first request was lost.
            found = client.get_experiment_by_name(name) if error.error_code == _EXISTS else None
            if found is None:
                raise
    if found.lifecycle_stage != "active":
        rule = f"must have the experiment {found.name!r}, which was deleted"
        remedy = f"run: mlflow experiments restore --experiment-id {found.experiment_id}, with MLFLOW_TRACKING_URI"
        raise broken_rule("tracking-uri", rule, store.shown, remedy)
    return str(found.experiment_id)


def tagged(client: MlflowClient, experiment: str, tag: str, value: str) -> list[Run]:
    """Return the runs with this tag, the oldest first."""
    runs: list[Run] = []
    token: str | None = None
    while True:
        page = client.search_runs(
            [experiment],
            f"tags.{tag} = '{value}'",
            max_results=_PAGE,
            order_by=["attributes.start_time ASC"],
            page_token=token,
        )
        runs += page
        token = page.token
        if not token:
            return runs


def adopted(runs: Sequence[Run], parent: str, cells: Mapping[str, str]) -> _Adopted:
    """Split the sweep's runs (oldest first) into those to use and duplicates made because an answer was lost.

    parent, cells: the runs in use, '' and nothing at the start. Of duplicates the fullest run is used.
    """
    children: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        if DIGEST in run.data.tags:
            children[run.data.tags.get(PARENT, "")].append(run)
    parents = [run.info.run_id for run in runs if DIGEST not in run.data.tags]
    if parents and parent not in parents:
        parent = max(parents, key=lambda one: (sum(map(_recorded, children[one])), len(children[one])))
    kept: dict[str, Run] = {}
    # The sort is stable: the oldest stays first among equals.
    for run in sorted(children[parent], key=_recorded, reverse=True):
        digest = run.data.tags[DIGEST]
        if digest not in kept or cells.get(digest) == run.info.run_id:
            kept[digest] = run
    mine = {parent, *(run.info.run_id for run in kept.values())}
    return _Adopted(parent, kept, [run.info.run_id for run in runs if run.info.run_id not in mine])


def _recorded(run: Run) -> bool:
    return RECORDED in run.data.tags
