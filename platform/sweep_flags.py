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
"""Takes a number."""


def sweep_words(options: argparse.Namespace) -> list[str]:
    """Return the words that give another `dprl sweep` the flags of this call."""
    words = [flag for flag in {**HOW_TO_RUN, **HOW_TO_SWEEP} if getattr(options, _attribute(flag))]
    most = getattr(options, _attribute(MOST_SEEDS))
    return words if most is None else [*words, MOST_SEEDS, most]


def _attribute(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")
