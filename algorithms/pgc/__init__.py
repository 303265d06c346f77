"""Private gradient collection: deliver parameters, update locally, report privately, aggregate ([OT20] sec. 3.1.1)."""

from __future__ import annotations

from dprl.algorithms.pgc.aggregator import Aggregator, Batch, CollectionRules, Reply
from dprl.algorithms.pgc.scores import ScoreTracker

__all__ = ["Aggregator", "Batch", "CollectionRules", "Reply", "ScoreTracker"]
