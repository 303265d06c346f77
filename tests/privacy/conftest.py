"""Count families and contributions of a tabular learner, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from dprl.privacy import Contribution, CountFamilies, CountFamily


def _families(horizon: int, n_states: int = 3, n_actions: int = 2) -> CountFamilies:
    pairs = n_states * n_actions
    return CountFamilies(
        horizon,
        (
            CountFamily("transitions", pairs * n_states, 2),
            CountFamily("visits", pairs, 0),
            CountFamily("rewards", pairs, 1),
        ),
    )


def _contribution(families: CountFamilies, rng: np.random.Generator) -> Contribution:
    shape = (families.n_steps, len(families.families))
    widths = [family.width for family in families.families]
    return Contribution(rng.integers(0, widths, size=shape), rng.random(shape))


@pytest.fixture
def tabular_families() -> Callable[..., CountFamilies]:
    """Return a maker of the three families of a tabular learner."""
    return _families


@pytest.fixture
def random_contribution() -> Callable[[CountFamilies, np.random.Generator], Contribution]:
    """Return a maker of random users."""
    return _contribution
