"""What audits of all kinds of cells have in common: what is claimed, draws of their own, what is said of last bits."""

from __future__ import annotations

import math

from dprl.platform.configs.experiment import Experiment
from dprl.privacy import GradientPrivatizer, Privatizer, Streams
from dprl.privacy.audits.findings import Claim
from dprl.privacy.mechanisms.base import IDEALISED
from dprl.privacy.randomness.settings import NoiseConfig
from dprl.privacy.submitting import SubmittingUsers


def claim_of(privatizer: Privatizer | GradientPrivatizer | SubmittingUsers) -> Claim:
    """Return what is claimed of a cell; an infinite epsilon where nothing is."""
    claimed = privatizer.request.claimed
    if claimed is None:
        return Claim(math.inf, source=privatizer.request.source)
    return Claim(claimed.epsilon, claimed.delta, privatizer.request.source)


def audit_streams(experiment: Experiment, seed: int) -> Streams:
    """Return the streams of an audit's probes of a cell, which no run of it draws from."""
    # What the operating system gives cannot be drawn twice; the law of the noise is the same.
    return Streams(seed, f"audit|{experiment.digest}", NoiseConfig(experiment.noise.arithmetic, "seed"))


def last_bits_of(privatizer: GradientPrivatizer | SubmittingUsers) -> str | None:
    """Return what a reader should know of float64 messages; None where noise is not idealised."""
    noises = [release.mechanism for release in privatizer.planned_ledger().releases]
    if all(noise is None or noise.arithmetic != IDEALISED for noise in noises):
        return None
    return "the proof is for real numbers, and messages are float64; nothing is measured of their last bits"
