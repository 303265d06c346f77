"""Auditing in one run: every user of a local protocol is a canary whose coin the auditor guesses from the report."""

from __future__ import annotations

import numpy as np

from dprl.privacy.audits.bounds import one_run_epsilon
from dprl.privacy.audits.findings import Claim, Measurement, ProbeProof
from dprl.privacy.audits.two_worlds import DIGITS, Attack, Probe
from dprl.privacy.base import Float64Array
from dprl.privacy.randomness.bits import fill_uniform
from dprl.privacy.randomness.streams import Streams

METHOD = "one run"
_GUESSED_SHARE = 8


def measure_one_run(probe: Probe, claim: Claim, proved: ProbeProof, attack: Attack) -> Measurement:
    """Return a lower bound on epsilon from one run with `attack.runs` users, each in a world of its own coin.

    The eighth of the users whose reports are furthest from undecided is guessed. The probe's scores must be log
    likelihood ratios (0 is undecided). Holds with probability 1 - alpha; it says nothing of delta.

    Paper: Steinke, Nasr, Jagielski 2023, Theorem 5.2.
    """
    users = attack.runs
    coins, scores = _play(probe, users, attack.seed)
    guesses = max(1, users // _GUESSED_SHARE)
    confident = np.argsort(-np.abs(scores), kind="stable")[:guesses]
    correct = int(((scores[confident] > 0.0) == coins[confident]).sum())
    return Measurement(
        method=METHOD,
        probe=f"{probe.description}, {correct} of {guesses} guesses right",
        claim=claim,
        proved=proved,
        epsilon_lb=one_run_epsilon(users, guesses, correct, attack.alpha, claim.delta),
        delta_lb=0.0,
        confidence=1.0 - attack.alpha,
        runs=users,
        largest_epsilon_lb=one_run_epsilon(users, guesses, guesses, attack.alpha, claim.delta),
    )


def _play(probe: Probe, users: int, seed: int) -> tuple[np.ndarray, Float64Array]:
    """Return every user's coin, bool[users], and the score of their report, float64[users]."""
    uniforms = np.empty(users)
    fill_uniform(uniforms, Streams(seed, f"audit|coins|{probe.description}").key("env"), np.uint64(0))
    coins = uniforms < 0.5
    scores = np.empty(users)
    for world in (0, 1):
        here = coins == bool(world)
        key = Streams(seed, f"audit|{probe.description}|one run|{world}").key("user_noise")
        scores[here] = probe.scores(world, int(here.sum()), key)
    return coins, np.round(scores, DIGITS)
