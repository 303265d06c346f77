"""Consistent transition counts: what every table of true counts satisfies, restored in the nearest noisy one.

In k-1 episodes every step has k-1 transitions, and as many episodes arrive in a state as leave it one step later. The
orthogonal projection on these equations has a closed form: the equations of one step concern sums over s' or over
(s, a), and once the totals hold they are orthogonal to each other.
"""

from __future__ import annotations

from dprl.algorithms.base import Float64Array
from dprl.compiled import inlined


@inlined
def restore_totals_and_flow(transitions: Float64Array, users: int, excess: Float64Array) -> None:
    """Project transitions float64[H, S', S*A] on the counts of `users` episodes, in place.

    excess float64[H+1, S]: scratch. With totals restored, lambda_h(s) = (arrivals in s at step h - departures from s at
    step h+1) / (2 S A) is taken from the cells that lead to s and given to those that leave it.
    """
    horizon, n_states, pairs = transitions.shape
    for h in range(horizon):
        restore_total(transitions[h], users)
    excess[:] = 0.0
    for h in range(horizon - 1):
        add_excess(transitions[h], transitions[h + 1], excess[h + 1])
    n_actions = pairs // n_states
    for h in range(horizon):
        for t in range(n_states):
            for j in range(pairs):
                transitions[h, t, j] += excess[h, j // n_actions] - excess[h + 1, t]


@inlined
def restore_total(step: Float64Array, users: int) -> None:
    """Give every cell of step float64[S', S*A] an equal share of what they lack to `users`."""
    total = 0.0
    for t in range(step.shape[0]):
        for j in range(step.shape[1]):
            total += step[t, j]
    share = (users - total) / step.size
    for t in range(step.shape[0]):
        for j in range(step.shape[1]):
            step[t, j] += share


@inlined
def add_excess(arriving: Float64Array, leaving: Float64Array, excess: Float64Array) -> None:
    """Fill excess float64[S]: what arrives by one step over what leaves by the next, per cell that must change."""
    n_states, pairs = arriving.shape
    n_actions = pairs // n_states
    for t in range(n_states):
        for j in range(pairs):
            excess[t] += arriving[t, j] / (2 * pairs)
            excess[j // n_actions] -= leaving[t, j] / (2 * pairs)
