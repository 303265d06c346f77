"""Blackjack of Gymnasium as a table of transitions."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["Outcomes", "blackjack_table"]

Outcomes = dict[int, dict[int, list[tuple[float, int, float, bool]]]]
"""P of Gymnasium's toy environments: state -> action -> (probability, next state, reward, whether the episode ends)."""

_STICK, _HIT = 0, 1
_DEALER_STOPS, _HIGHEST, _SOFT = 17, 21, 11
_CARDS = {card: (4.0 if card == 10 else 1.0) / 13.0 for card in range(1, 11)}


def blackjack_table(natural: bool, sab: bool) -> tuple[Outcomes, NDArray[np.float64]]:
    """Return the table and the distribution of the first state; the options are those of the environment.

    States: the player's hand (sum 4 to 21 without an ace that counts 11, then 12 to 21 with one, then a natural), for
    each the dealer's card from 1 to 10; the last state is the end of the episode. Cards are drawn with replacement. A
    natural is known from the first two cards only and therefore has separate states.
    """
    hands = [(total, False, False) for total in range(4, _HIGHEST + 1)]
    hands += [(total, True, False) for total in range(2, _SOFT + 1)] + [(_SOFT, True, True)]
    states = [(total, ace, shown, nat) for total, ace, nat in hands for shown in _CARDS]
    number = {state: place for place, state in enumerate(states)}
    end, outcomes, start = len(states), Outcomes(), np.zeros(len(states) + 1)
    for (total, ace, shown, nat), place in number.items():
        hits = []
        for card, chance in _CARDS.items():
            more = _with(total, ace, card)
            bust = _worth(*more) > _HIGHEST
            hits.append((chance, end if bust else number[*more, shown, False], -1.0 if bust else 0.0, bust))
        mean = _mean_reward(_worth(total, ace), shown, (natural and nat, sab and nat))
        outcomes[place] = {_STICK: [(1.0, end, mean, True)], _HIT: hits}
    outcomes[end] = {action: [(1.0, end, 0.0, True)] for action in (_STICK, _HIT)}
    for one, first in _CARDS.items():
        for two, second in _CARDS.items():
            total, ace = _with(*_with(0, False, one), two)
            for shown, third in _CARDS.items():
                start[number[total, ace, shown, ace and total == _SOFT]] += first * second * third
    return outcomes, start


def _with(total: int, ace: bool, card: int) -> tuple[int, bool]:
    """Return the sum with aces as 1, and whether an ace can count as 11, with one more card."""
    return total + card, (ace or card == 1) and total + card <= _SOFT


def _worth(total: int, ace: bool) -> int:
    return total + 10 if ace else total


@cache
def _dealers_law(total: int, ace: bool, n_cards: int) -> dict[tuple[int, bool], float]:
    """Return the law of the dealer's score (0 if bust) and whether it is a natural."""
    score = _worth(total, ace)
    if n_cards >= 2 and score >= _DEALER_STOPS:
        return {(score if score <= _HIGHEST else 0, n_cards == 2 and score == _HIGHEST): 1.0}
    found: dict[tuple[int, bool], float] = {}
    for card, chance in _CARDS.items():
        for key, rest in _dealers_law(*_with(total, ace, card), n_cards + 1).items():
            found[key] = found.get(key, 0.0) + chance * rest
    return found


def _mean_reward(score: int, shown: int, pays_more_wins: tuple[bool, bool]) -> float:
    """Return the mean reward of sticking; a natural may pay 1.5, or win against all but another natural."""
    pays_more, wins = pays_more_wins
    mean = 0.0
    for (dealer, dealt), chance in _dealers_law(shown, shown == 1, 1).items():
        reward = float(score > dealer) - float(score < dealer)
        if wins and not dealt:
            reward = 1.0
        elif pays_more and reward == 1.0:
            reward = 1.5
        mean += chance * reward
    return mean
