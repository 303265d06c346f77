"""The flags that say how a sweep is run, and the words that hand them on to a sweep elsewhere."""

from __future__ import annotations

import argparse

HOW_TO_RUN = {
    "--fresh": "delete earlier results of this name and restart",
    "--quiet": "print only results and errors",
}
"""Flags of `run`, `sweep` and `submit`, with their help."""
HOW_TO_SWEEP = {
    "--adaptive": "add seeds, as many as the config has at a time, to cells with a comparison that is not significant",
}
"""Further flags of `sweep` and `submit`."""
MOST_SEEDS = "--most-seeds"
MAX_RESTARTS = "--max-restarts"
"""Both take a number."""
DEFAULT_RESTARTS = 3
"""Default of `--max-restarts`, finite because a cell that needs too much memory dies each time."""


def sweep_words(options: argparse.Namespace) -> list[str]:
    """Return the words that give another `dprl sweep` the flags of this call."""
    words = [flag for flag in {**HOW_TO_RUN, **HOW_TO_SWEEP} if getattr(options, _attribute(flag))]
    for flag in (MOST_SEEDS, MAX_RESTARTS):
        number = getattr(options, _attribute(flag))
        words += [] if number is None else [flag, number]
    return words


def _attribute(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")
