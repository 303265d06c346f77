"""Compiled loop of MA-LDP: estimate, plan, play, release and add up, agree on rewards; once per user.

Paper: [TH23] Algorithm 1.
"""

from __future__ import annotations

from typing import NamedTuple

from dprl.algorithms.base import Float64Array
from dprl.algorithms.ma_ldp.estimation import EXPONENT, Estimates, Sums, estimate
from dprl.algorithms.ma_ldp.planning import Planning, make_plan
from dprl.algorithms.ma_ldp.rewards import RewardEstimates, update
from dprl.algorithms.ma_ldp.users import Users, play, regret
from dprl.compiled import no_alloc_kernel
from dprl.privacy.queries.linear_statistics_kernels import StatisticsChannel, add_statistics, send_statistics


class Server(NamedTuple):
    """Server state, computed from messages only.

    sums, estimates: of the dynamics. rewards: estimates of the mean reward. growing: whether noise adds up over
    messages, as in the local model; a counter's noise does not. beta_rates float64[H]: beta_{k,h} / k^(1/4), or
    beta_{k,h} if it does not grow; shift_rates float64[H]: see `shift_rates`. betas float64[H]: scratch, beta_{k,h}.
    """

    sums: Sums
    estimates: Estimates
    rewards: RewardEstimates
    growing: bool
    beta_rates: Float64Array
    shift_rates: Float64Array
    betas: Float64Array

    def __repr__(self) -> str:
        return f"Server({self.beta_rates.shape[0]} stages)"


@no_alloc_kernel
def run(
    users: Users, planning: Planning, channel: StatisticsChannel, server: Server, first: int, last: int
) -> tuple[float, int, int]:
    """Run episodes first..last (from 1 on, inclusive) of K.

    Returns the summed regret, the number of entries of Q cut at H - h + 1, and the number of matrices with an extra
    shift, over all episodes. The user of episode K sends nothing, because no later policy could use it. Users
    first..last must be charged.
    """
    rules, plan, rewards, estimates = planning.rules, planning.plan, server.rewards, server.estimates
    summed, cut, indefinite, current = 0.0, 0, 0, regret(users, rules, plan)
    for k in range(first, last + 1):
        # Lines 6, 37 and 38.
        indefinite += estimate(server.sums, server.shift_rates, k - 1 if server.growing else 1, estimates)
        growth = float(k) ** EXPONENT if server.growing else 1.0
        for h in range(server.betas.shape[0]):
            server.betas[h] = server.beta_rates[h] * growth
        # Lines 8 to 13 and 16.
        changed, entries = make_plan(planning, estimates.theta, estimates.inverses, rewards.values, server.betas)
        cut += entries
        if changed:
            current = regret(users, rules, plan)
        summed += current
        # User side, lines 14 to 23.
        play(users, rules, plan, rewards.values, k)
        if k < users.episodes:
            # User side, lines 24 to 32: the only output.
            send_statistics(channel, users.device.features, users.device.targets, users.device.corrections, k)
            # Server side, lines 33 to 36.
            add_statistics(channel, server.sums.matrices, server.sums.vectors, rewards.corrections)
            if rewards.learned == 1:  # lines 18 and 42
                update(rewards, k)
    return summed, cut, indefinite
