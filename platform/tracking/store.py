"""Where MLflow keeps its runs."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from dprl.platform.errors import UserError, broken_rule

EXPERIMENT = "dprl"
"""The MLflow experiment that holds every sweep, so that runs of different sweeps can be compared."""


class TrackingError(Exception):
    """MLflow did not take something; nothing on disk is lost, and the same sweep again writes it."""


@dataclass(frozen=True)
class TrackingStore:
    """Runs at `uri`; their files below `artifact_root`, or, where that is None, where the server puts them.

    Raises UserError for a folder as store, which MLflow 3 no longer writes.
    """

    uri: str
    artifact_root: Path | None

    def __post_init__(self) -> None:
        folder = "://" not in self.uri or self.uri.startswith("file:")
        if folder and self.uri != "databricks":
            rule = "must be a database or a server"
            remedy = "use sqlite:////absolute/path.db or http://host:5000"
            raise broken_rule("tracking-uri", rule, self.uri, remedy)

    @classmethod
    def choose(cls, home: Path, uri: str | None) -> TrackingStore:
        """Return the store that the user named, or the database under `home`.

        Its path is absolute, because a relative one means another file in every folder, and quoted, because
        MLflow unquotes it.
        """
        if uri is not None:
            return cls(uri, None)
        return cls(f"sqlite:///{quote(str(database_in(home)))}", home.resolve() / "artifacts")


def database_in(home: Path) -> Path:
    """Return MLflow's database in the folder of all results."""
    return home.resolve() / "mlflow.db"


def runs_page(database: Path) -> str:
    """Return the address, on MLflow's server for `database`, of the page with the runs of all sweeps.

    From its front page MLflow leads to pages for language models, which show nothing here. Raises UserError.
    """
    query = "SELECT experiment_id FROM experiments WHERE name = ?"
    try:
        with closing(sqlite3.connect(database)) as connection:
            row = connection.execute(query, (EXPERIMENT,)).fetchone()
    except sqlite3.Error as error:
        raise UserError(f"{database}: must be MLflow's database, got {error}; move it away and sweep again") from None
    return f"/#/experiments/{row[0]}/runs?workflowType=machine_learning" if row is not None else "/"
