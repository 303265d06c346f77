"""Check of a machine's installed dependencies before any library is imported."""

from __future__ import annotations

import importlib.metadata
import socket
import sys

from packaging.requirements import Requirement

from dprl.platform.errors import UserError

_PACKAGE = "dprl"


def unmet_requirements() -> list[str]:
    """Return the dependencies that are missing or have another version here, as `name>=1 (found 0.9)`."""
    unmet = []
    for line in importlib.metadata.requires(_PACKAGE) or ():
        requirement = Requirement(line)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": "ray"}):
            continue
        try:
            found = importlib.metadata.version(requirement.name)
        except importlib.metadata.PackageNotFoundError:
            found = "none"
        if found == "none" or not requirement.specifier.contains(found, prereleases=True):
            unmet.append(f"{requirement.name}{requirement.specifier} (found {found})")
    return unmet


def require_dependencies() -> None:
    """Raise UserError if a dependency is missing on this machine."""
    unmet = unmet_requirements()
    if unmet:
        raise UserError(
            f"node {socket.gethostname()}: {sys.executable} must have dprl's dependencies, got "
            f"{', '.join(unmet)}; install them on every node, or start Ray from an environment that has them"
        )
