"""Sums of released cells equal direct counts, for every layout and family."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dprl.privacy import CountFamilies, CountFamily, CountPrivacy, Streams, UserRecord
from tests.privacy.sending import sent

STEPS, STATES, PAIRS, USERS = 3, 4, 6, 12
TRANSITIONS = CountFamily("transitions", PAIRS * STATES)
VISITS = CountFamily("visits", PAIRS, marginal_of="transitions")
REWARDS = CountFamily("rewards", PAIRS, marginal_of="transitions", indicator=False)
WITH_REWARDS = CountFamilies(STEPS, (TRANSITIONS, VISITS, REWARDS))
WITHOUT = CountFamilies(STEPS, (TRANSITIONS, VISITS))
# Integer noise of this scale is 0 except with probability e^-200.
NOISELESS: list[Any] = [
    CountPrivacy("jdp", 1.2e4, mechanism="discrete_laplace"),
    CountPrivacy("ldp", 3e3, mechanism="discrete_laplace"),
]


def users(families: CountFamilies) -> list[UserRecord]:
    """Users whose trajectories are consistent, with rewards of 0 and 1."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(USERS):
        transitions = rng.integers(0, TRANSITIONS.width, STEPS)
        index = np.stack([transitions, transitions % PAIRS, transitions % PAIRS], axis=1)
        value = np.ones(index.shape)
        value[:, 2] = rng.integers(0, 2, STEPS)
        kept = slice(len(families.families))
        found.append(UserRecord(index[:, kept].copy(), value[:, kept].copy()))
    return found


def counted(families: CountFamilies, model: Any) -> np.ndarray:
    """The counts of all users, as a learner receives them."""
    privatizer = model.build(families, USERS, Streams(0, "layouts"))
    for user, contribution in enumerate(users(families), start=1):
        counts = sent(privatizer, contribution, user)
    return np.asarray(counts.values)


@pytest.mark.parametrize("families", [WITH_REWARDS, WITHOUT], ids=["with rewards", "without"])
@pytest.mark.parametrize("kind", ["separate", "one_hot"])
@pytest.mark.parametrize("model", NOISELESS, ids=lambda model: model.model)
def test_every_layout_gives_the_counts_themselves(model: Any, kind: str, families: CountFamilies) -> None:
    exact = counted(families, CountPrivacy("none"))
    rows = exact.reshape(STEPS, -1)
    transitions, visits = rows[:, : TRANSITIONS.width], rows[:, TRANSITIONS.width : TRANSITIONS.width + PAIRS]
    assert np.array_equal(transitions.reshape(STEPS, STATES, PAIRS).sum(axis=1), visits)
    assert len(np.unique(exact)) > 2
    assert np.array_equal(
        counted(families, CountPrivacy(model.model, model.epsilon, mechanism=model.mechanism, families=kind)), exact
    )


def test_noisy_visits_are_the_sum_of_noisy_transitions() -> None:
    rows = counted(WITHOUT, CountPrivacy("jdp", 1.0, families="one_hot")).reshape(STEPS, -1)
    transitions, visits = rows[:, : TRANSITIONS.width], rows[:, TRANSITIONS.width :]
    np.testing.assert_allclose(transitions.reshape(STEPS, STATES, PAIRS).sum(axis=1), visits, rtol=1e-12, atol=1e-9)


def test_bits_need_whole_cells() -> None:
    """Values sent unchanged could be fractions, whatever the family states; bits protect one cell per step."""
    with pytest.raises(ValueError, match=r"^mechanism must be additive noise .*; use families: one_hot"):
        CountPrivacy("ldp", 1.0, mechanism="sampled_direct_encoding", families="separate").build(
            WITHOUT, 5, Streams(0, "x")
        )
    CountPrivacy("ldp", 1.0, mechanism="sampled_direct_encoding", families="one_hot").build(WITHOUT, 5, Streams(0, "x"))
