"""Everything that a learner's privatizer has released, as one array, which changes with any change of noise."""

from __future__ import annotations

from typing import Any

import numpy as np


def released(learner: Any) -> np.ndarray:
    """Return counts, sums of statistics, or parameters made of gradients."""
    kind = learner.config.releases
    if kind == "counts":
        return np.asarray(learner.privatizer.release().values)
    if kind == "gradients":
        return np.asarray(learner._server.parameters)
    return np.concatenate([learner._server.matrices.ravel(), learner._server.vectors.ravel()])
