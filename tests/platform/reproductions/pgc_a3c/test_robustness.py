"""Scores by environment: their comparisons on made-up cells, and the simulator behind them."""

from __future__ import annotations

import math
from collections import Counter

import gymnasium
import numpy as np
import pytest

from dprl.envs import CartPoleGravity
from dprl.platform.policies.actor_critic import ActorCriticPolicy
from dprl.platform.reproductions.claims import Key
from dprl.platform.reproductions.robustness import FAMILIES, UNTRAINED, _scores, blocks, compared, data
from tests.platform.reproductions.pgc_a3c.cases import environments

UPRIGHT = np.r_[np.tile([0.0, 0.0, 1.0, 0.3, 0.0, 0.0, -1.0, -0.3], 8), np.zeros(48)]
"""Parameters of a policy that pushes towards the leaning side of the pole."""
UPRIGHT[64:80], UPRIGHT[80:96] = np.tile([0.0, 1.0], 8), np.tile([1.0, 0.0], 8)


@pytest.mark.parametrize(("gain", "verdict"), [(30.0, "holds"), (0.0, "open"), (-30.0, "fails")])
def test_a_gain_is_seen_where_it_is(gain: float, verdict: str) -> None:
    outcomes = compared("CartPole", environments(30, gain))
    assert {one.verdict for one in outcomes} == {verdict}
    assert all(one.difference.difference == pytest.approx(gain, abs=5.0) for one in outcomes)


def test_comparisons_are_of_environments_that_neither_side_has_seen() -> None:
    outcomes = compared("CartPole", environments(5))
    found = Counter((one.claim.order, one.claim.measure.name) for one in outcomes)
    unseen = {"9.7, 9.8, 9.9": ("1.8", "5", "9.75", "14", "17.8", "25"), "1.8, 9.8, 17.8": ("5", "9.7", "9.75")}
    unseen["1.8, 9.8, 17.8"] += ("9.9", "14", "25")
    expected = {(f"{name} > 9.8", value) for name, values in unseen.items() for value in values}
    assert found == dict.fromkeys(expected, 2)  # with and without privacy


def test_p_values_are_adjusted_for_the_whole_family() -> None:
    outcomes = compared("Acrobot", environments(30, 3.0))
    least = min(outcomes, key=lambda one: one.p)
    assert len(outcomes) == 8
    assert least.adjusted == pytest.approx(min(1.0, 8 * least.p))


def test_tables_mark_what_was_seen_and_count_verdicts() -> None:
    found = blocks(environments(30, 30.0), ["Made by a test."])
    rows = [line.strip("|").split("|") for line in found["Acrobot_scores"].splitlines()[2:]]
    told = {(row[0].strip(), row[1].strip()): row[2:] for row in rows}
    assert [place for place, text in enumerate(told["0.5, 1, 1.5", "3"]) if "**" in text] == [1, 3, 5]
    assert not any("**" in text for text in told[UNTRAINED, "no users"])
    assert (
        "training on several scored higher than training on one in 24 and lower in 0; 0 are open"
        in (found["CartPole_verdict"])
    )
    assert found["CartPole_comparisons"].count("**higher**") == 24


def test_data_have_every_score() -> None:
    cells = environments(5)
    found = data(cells)
    assert len(found) == len(cells)
    assert all(set(one["scores"]) == set(cells[key].values) for one, key in zip(found, cells, strict=True))


@pytest.mark.parametrize("gravity", [1.8, 25.0])
def test_scores_of_carts_are_those_of_our_own_environment(gravity: float) -> None:
    """False alarms: below 1 in 10^5, at 4.5 standard errors of a difference of two means."""
    policy = ActorCriticPolicy(UPRIGHT, CartPoleGravity())
    env, found = gymnasium.make("dprl/CartPoleGravity-v0"), []
    for user in range(150):
        seen, _ = env.reset(seed=user, options={"gravity": gravity})
        steps, over = 0, False
        while not over:
            seen, _, ended, cut, _ = env.step(policy(seen))
            steps, over = steps + 1, ended or cut
        found.append(steps)
    ours = [_scores(FAMILIES["CartPole"], gravity, [policy] * 2, 1000)[0] for _ in range(1)]  # type: ignore[list-item]
    assert ours[0] == pytest.approx(np.mean(found), abs=4.5 * float(np.std(found)) / math.sqrt(130))


def test_acrobots_have_the_masses_of_their_number() -> None:
    _, vector = FAMILIES["Acrobot"].made(0.75, 3)
    vector.reset(seed=0)
    assert (vector.link_masses == 0.75).all()  # type: ignore[attr-defined]


def test_keys_of_controls_are_no_training_sets() -> None:
    assert Key("CartPole", "none", math.inf, control=UNTRAINED) in environments(3)
