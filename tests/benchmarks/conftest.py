"""Makes `benchmarks` importable, a folder of the repository outside the installed package; shared fixtures."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from dprl.envs import FiniteMDP

_ROOT = str(Path(__file__).resolve().parents[2])

# Remove the root from sys.path again; otherwise `import privacy` would load a second copy of dprl.privacy.
sys.path.insert(0, _ROOT)
try:
    from benchmarks.naive_ucb_vi import Counts, laplace_noise
finally:
    sys.path.remove(_ROOT)


@pytest.fixture
def mdp() -> FiniteMDP:
    """Return a random MDP with H = 4, S = 3, A = 2."""
    rng = np.random.default_rng(0)
    return FiniteMDP(
        "test", rng.dirichlet(np.ones(3), size=(4, 3, 2)), rng.random((4, 3, 2)), rng.dirichlet(np.ones(3))
    )


@pytest.fixture
def noisy_counts(mdp: FiniteMDP) -> list[Counts]:
    """Return twenty tables of private counts of a few hundred visits."""
    rng, tables = np.random.default_rng(2), []
    for _ in range(20):
        counts = laplace_noise(Counts.zeros(mdp), 20.0, rng)
        counts.visits += rng.integers(0, 400, counts.visits.shape)
        counts.transitions += rng.integers(0, 100, counts.transitions.shape)
        counts.rewards += rng.integers(0, 300, counts.rewards.shape)
        tables.append(counts)
    return tables
