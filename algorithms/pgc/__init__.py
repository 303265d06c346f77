"""Private gradient collection: deliver parameters, update locally, report privately, aggregate ([OT20] sec. 3.1.1)."""

from __future__ import annotations

from dprl.algorithms.pgc.aggregator import Aggregator, StepRule
from dprl.algorithms.pgc.base import Batch, LocalAgents, Reply
from dprl.algorithms.pgc.schedule import Schedule
from dprl.algorithms.pgc.scores import ScoreTracker

__all__ = ["Aggregator", "Batch", "LocalAgents", "Reply", "Schedule", "ScoreTracker", "StepRule"]
