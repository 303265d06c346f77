"""The flags that say how a sweep is run, and the words that hand them on to a sweep elsewhere."""

from __future__ import annotations

import argparse

HOW_TO_RUN = {
    "--fresh": "delete what earlier calls under this name did",
    "--quiet": "no progress: results, and what goes wrong",
}
"""Of `run`, `sweep` and `submit`; with what each does."""
HOW_TO_SWEEP = {
    "--adaptive": "add seeds, as many as the config has at a time, to cells with a comparison that is not significant",
}
"""Of `sweep` and `submit` besides."""
MOST_SEEDS = "--most-seeds"
MAX_RESTARTS = "--max-restarts"
"""Both take a number."""
DEFAULT_RESTARTS = 3
"""Of `--max-restarts`: a cell that needs more memory than there is dies each time."""


def sweep_words(options: argparse.Namespace) -> list[str]:
    """Return the words that give another `dprl sweep` the flags of this call."""
    words = [flag for flag in {**HOW_TO_RUN, **HOW_TO_SWEEP} if getattr(options, _attribute(flag))]
    for flag in (MOST_SEEDS, MAX_RESTARTS):
        number = getattr(options, _attribute(flag))
        words += [] if number is None else [flag, number]
    return words


def _attribute(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")
