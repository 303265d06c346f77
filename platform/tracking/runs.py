"""Which of MLflow's runs are a sweep's: many people's sweeps may have its name, and a run may be there twice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from mlflow.entities import Run
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from dprl.platform.tracking.store import EXPERIMENT, TrackingError, TrackingStore

SWEEP, SWEEP_ID, ROLE = "sweep", "sweep_id", "role"
DIGEST, PARENT, RECORDED = "digest", "mlflow.parentRunId", "recorded"
"""Tags. `sweep` is for people, `sweep_id` tells sweeps of one name apart; `recorded` where all of a cell is written."""
SWEEP_ROLE = "sweep"

# Without it MLflow's pages may take the experiment for one with language models, which have no curves.
_EXPERIMENT_TAGS = {"mlflow.experimentKind": "custom_model_development"}
_EXISTS = "RESOURCE_ALREADY_EXISTS"
_PAGE = 1000


class Adopted(NamedTuple):
    """Runs of one sweep. parent: '' if there is none. cells: by digest. surplus: those that are there twice."""

    parent: str
    cells: Mapping[str, Run]
    surplus: Sequence[str]


def find_experiment(client: MlflowClient, store: TrackingStore) -> str:
    """Return the experiment of all sweeps, which is made if it is not there. Raises TrackingError if it was deleted."""
    found = client.get_experiment_by_name(EXPERIMENT)
    if found is None:
        root = store.artifact_root
        try:
            return str(
                client.create_experiment(EXPERIMENT, root.as_uri() if root is not None else None, _EXPERIMENT_TAGS)
            )
        except MlflowException as error:
            # Somebody else has made it meanwhile, or this one, of whose first request the answer was lost.
            found = client.get_experiment_by_name(EXPERIMENT) if error.error_code == _EXISTS else None
            if found is None:
                raise
    if found.lifecycle_stage != "active":
        raise TrackingError(f"experiment {EXPERIMENT!r} was deleted; restore it, or use another store")
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


def of_older_version(named: Sequence[Run], digests: Collection[str]) -> list[Run]:
    """Return those of the runs `named` like the sweep that are its own, though of an older version without `sweep_id`.

    digests: of the cells in the sweep's folder. A run of another cell is somebody else's.
    """
    untagged = [run for run in named if SWEEP_ID not in run.data.tags]
    cells = [run for run in untagged if run.data.tags.get(DIGEST) in digests]
    parents = {run.data.tags.get(PARENT) for run in cells}
    return [run for run in untagged if run.info.run_id in parents] + cells


def adopted(runs: Sequence[Run], parent: str, cells: Mapping[str, str]) -> Adopted:
    """Tell the sweep's runs, given the oldest first, from those that were made because an answer was lost.

    parent, cells: those that the caller writes to already, '' and nothing at the start. Then those stay of which the
    most is recorded.
    """
    children: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        if DIGEST in run.data.tags:
            children[run.data.tags.get(PARENT, "")].append(run)
    parents = [run.info.run_id for run in runs if run.data.tags.get(ROLE) == SWEEP_ROLE]
    if parents and parent not in parents:
        parent = max(parents, key=lambda one: (sum(map(_recorded, children[one])), len(children[one])))
    kept: dict[str, Run] = {}
    # Of equal ones sorting leaves the oldest first.
    for run in sorted(children[parent], key=_recorded, reverse=True):
        digest = run.data.tags[DIGEST]
        if digest not in kept or cells.get(digest) == run.info.run_id:
            kept[digest] = run
    mine = {parent, *(run.info.run_id for run in kept.values())}
    return Adopted(parent, kept, [run.info.run_id for run in runs if run.info.run_id not in mine])


def _recorded(run: Run) -> bool:
    return RECORDED in run.data.tags
