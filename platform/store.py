"""Where MLflow keeps its runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dprl.platform.errors import broken_rule


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
        if "://" not in self.uri or self.uri.startswith("file:"):
            rule, remedy = (
                "must be a database or a server",
                "use sqlite:////absolute/path.db or http://host:5000",
            )
            raise broken_rule("tracking-uri", rule, self.uri, remedy)

    @classmethod
    def choose(cls, home: Path, uri: str | None) -> TrackingStore:
        """Return the store that the user named, or the database under `home`.

        Its path is absolute, because a relative one means another file in every folder.
        """
        if uri is not None:
            return cls(uri, None)
        return cls(f"sqlite:///{home.resolve()}/mlflow.db", home.resolve() / "artifacts")
