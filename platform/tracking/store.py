"""MLflow tracking store."""

from __future__ import annotations

import importlib.metadata
import os
import socket
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from dprl.platform.environment_variables import EXPERIMENT_VARIABLE
from dprl.platform.errors import UserError, broken_rule
from dprl.platform.redaction import without_secrets
from dprl.platform.results.home import Home

EXPERIMENT = "dprl"
"""MLflow experiment of all sweeps, so that their runs can be compared, unless the environment names another."""


_PORTS = {"http": 80, "https": 443, "postgresql": 5432, "mysql": 3306, "mssql": 1433}
_DATABASES = ("sqlite", "postgresql", "mysql", "mssql")
_CONNECT_SECONDS = 10.0
_NO_DATABASE = {sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_PERM}


def sqlite_uri(database: Path) -> str:
    """Return the address of a database, with no more quoted than necessary.

    SQLAlchemy unquotes it, but MLflow would make an empty folder with the quoted name, unless a driver is named.
    """
    quoted = str(database).replace("%", "%25").replace("?", "%3F")
    return f"sqlite{'' if quoted == str(database) else '+pysqlite'}:///{quoted}"


def experiment_name() -> str:
    """Return the name of the MLflow experiment of all sweeps."""
    return os.environ.get(EXPERIMENT_VARIABLE, "").strip() or EXPERIMENT


@dataclass(frozen=True)
class TrackingStore:
    """Location of runs (`uri`) and their files (`artifact_root`, or the server's choice if None).

    Raises UserError for a folder, because MLflow 3 no longer writes to folders, and for an unknown kind of address.
    """

    uri: str
    artifact_root: Path | None

    def __post_init__(self) -> None:
        plugins = importlib.metadata.entry_points(group="mlflow.tracking_store")
        schemes = ["sqlite", *_PORTS, "databricks", *(each.name for each in plugins if "file" not in each.name)]
        if ("://" not in self.uri and self.uri != "databricks") or self._scheme not in schemes:
            remedy = f"write e.g. http://host:5000 or sqlite:////absolute/path.db; valid: {', '.join(schemes)}"
            raise broken_rule("tracking-uri", "must be a database or a server", self.shown, remedy)

    @property
    def _scheme(self) -> str:
        # 'postgresql+psycopg2://' names the driver too.
        return self.uri.partition(":")[0].partition("+")[0]

    def require_reachable(self) -> None:
        """Raise UserError if nothing listens at the store's address: MLflow would retry for long.

        Also raise it if a file is not a database. Proxies and special addresses (databricks) are left to MLflow.
        """
        try:
            if self.database is not None and self.database.exists():
                with closing(sqlite3.connect(self.database)) as connection:
                    connection.execute("PRAGMA schema_version")
            elif self._scheme in _PORTS:
                parts = urlsplit(self.uri)
                host, port = parts.hostname, parts.port or _PORTS[self._scheme]
                proxied = self._scheme in getproxies() and not proxy_bypass(host or "")
                if host is not None and not proxied:
                    socket.create_connection((host, port), timeout=_CONNECT_SECONDS).close()
        except (OSError, ValueError, sqlite3.DatabaseError) as error:
            if isinstance(error, sqlite3.DatabaseError) and error.sqlite_errorcode not in _NO_DATABASE:
                return  # a lock by another writer
            rule = f"must be usable by MLflow ({getattr(error, 'strerror', None) or error})"
            raise broken_rule("tracking-uri", rule, self.shown, "check the address") from error

    @property
    def shown(self) -> str:
        """The address without secrets."""
        return without_secrets(self.uri)

    @property
    def local(self) -> bool:
        """Whether it is a file of this machine; waiting does not help then."""
        return self._scheme == "sqlite"

    @property
    def database(self) -> Path | None:
        """The database file, if the address names one."""
        path = self.uri.partition(":///")[2]
        plain = self.local and path.startswith("/") and "?" not in path
        found = Path(unquote(path)) if plain else Path()
        return found if found.name and "\0" not in found.name else None

    def require_server_for(self, nodes: int) -> None:
        """Raise UserError if the store is an SQLite file and a cluster has several nodes.

        A file on the head's disk is lost with the head; on shared storage its locks are unreliable.
        """
        if nodes > 1 and self.local:
            rule = f"must be a server on a cluster of {nodes} nodes, not a file"
            remedy = "start `mlflow server` where all reach it, and give --tracking-uri http://HOST:5000"
            raise broken_rule("tracking-uri", rule, self.shown, remedy)

    @classmethod
    def choose(cls, home: Path, uri: str | None) -> TrackingStore:
        """Return the store that the user named, or the database under `home`, by its absolute path."""
        there = Home(home.resolve())
        if uri is None:
            return cls(sqlite_uri(there.database), there.artifacts)
        named = cls(uri, there.artifacts)  # with a database MLflow would put files into the current folder
        if named._scheme not in _DATABASES:
            return cls(uri, None)
        return named if named.database is None else cls(sqlite_uri(named.database), there.artifacts)


def runs_page(database: Path) -> str:
    """Return the path of the page with the runs of all sweeps on MLflow's server for `database`. Raises UserError.

    MLflow's front page leads to pages for language models instead, which are empty here.
    """
    query = "SELECT experiment_id FROM experiments WHERE name = ?"
    try:
        with closing(sqlite3.connect(database)) as connection:
            row = connection.execute(query, (experiment_name(),)).fetchone()
    except sqlite3.Error as error:
        raise UserError(f"{database}: must be MLflow's database, got {error}; move it away and sweep again") from None
    return runs_path(row[0]) if row is not None else "/"


def runs_path(experiment: str) -> str:
    """Return the path of the page with an experiment's runs on an MLflow server."""
    return f"/#/experiments/{experiment}/runs?workflowType=machine_learning"
