"""Both halves of a deployment from one config: a server's process, and one process for each user."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from dprl.algorithms import Learner
from dprl.platform.configs.config import load_cells
from dprl.platform.configs.experiment import Experiment
from dprl.platform.errors import EXIT_BAD_INPUT, UserError, broken_rule, print_error
from dprl.privacy import LedgerError, ServerPrivatizer, UserClient


@contextmanager
def start_of_script(words: Sequence[str], usage: str) -> Iterator[None]:
    """Exit with one line and code 2 if the script's words do not match `usage`, or a half cannot be made."""
    try:
        if len(words) != len(usage.split()):
            raise broken_rule("arguments", f"must be {usage}", " ".join(words), "give a word for each")
        yield
    except (LedgerError, OSError, OverflowError, UserError, ValueError) as error:
        print_error(f"{Path(sys.argv[0]).name}: {error}")
        sys.exit(EXIT_BAD_INPUT)


def load_deployment(config: str | Path) -> Experiment:
    """Return the experiment of a config with `release: true` and without a grid. Raises UserError."""
    cells = load_cells(config)
    if len(cells) != 1 or not cells[0].release or cells[0].seeds != 1:
        rule = "must be one cell with release: true and seeds: 1 to be deployed"
        got = f"{len(cells)} cells, release: {cells[0].release}, seeds: {cells[0].seeds}"
        raise broken_rule(str(config), rule, got, "write one config for each deployment")
    return cells[0]


def user_client(experiment: Experiment, user: int, folder: str | Path) -> UserClient[Any]:
    """Return the half of user `user`, with charges and message in `folder`; see `UserClient`."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    return UserClient(experiment.privatizer(), user, Path(folder))


def server_privatizer(
    experiment: Experiment,
    folder: str | Path,
    apply: Callable[[Any], object] | None = None,
    arrays: Mapping[str, np.ndarray] | None = None,
) -> ServerPrivatizer[Any]:
    """Return the server's half, with its files in `folder`; see `ServerPrivatizer`."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    return ServerPrivatizer(experiment.privatizer(), Path(folder), apply, arrays)


def planner(experiment: Experiment, server: ServerPrivatizer[Any]) -> Learner:
    """Return the experiment's learner on the server's releases: `plan(server.release())` gives a policy from counts."""
    env, streams = experiment.environment(), server.streams
    return experiment.algorithm.build(env, server, experiment.episodes, streams)
