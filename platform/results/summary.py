"""Summaries of a finished cell: the columns of its records, and the status of its certificate after the audit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dprl.algorithms import Metric

if TYPE_CHECKING:  # `dprl certify` reads certificates, and pandas is slow to load
    import pandas as pd


def per_episode(metric: Metric) -> str:
    """Return the column of a summed metric's mean over a block of episodes; its own column is cumulative."""
    return f"{metric.name}_per_episode"


def columns(metrics: Sequence[Metric]) -> list[str]:
    """Return the columns of the records of an algorithm with these metrics.

    They are `seed`, `episode` (the end of a block of episodes), and for each metric its sum since the first episode and
    its mean over the block, or only its mean over the block, or its value at the end of the block.
    """
    found = ["seed", "episode"]
    for metric in metrics:
        found += [metric.name, per_episode(metric)] if metric.over == "sum" else [metric.name]
    return found


def block_column(metric: Metric) -> str:
    """Return the records' column with the value of a metric in the block alone."""
    return per_episode(metric) if metric.over == "sum" else metric.name


def by_seed(records: pd.DataFrame, column: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the last episodes of blocks, [B], and `column` at each of them for every seed, [B, seeds].

    Raises ValueError unless the records have the same episodes of every seed.
    """
    ordered = records.sort_values(["seed", "episode"])
    episodes = ordered["episode"].to_numpy().reshape(ordered["seed"].nunique(), -1)
    if (episodes != episodes[0]).any():
        raise ValueError("records must have the same episodes of every seed")
    return episodes[0], ordered[column].to_numpy().reshape(len(episodes), -1).T


def proved_epsilon(certificate: Mapping[str, Any]) -> float:
    """Return the certified epsilon at the claimed delta: the pure epsilon if delta is 0 or nothing is claimed."""
    return float(certificate["proved"]["epsilon_at_claimed_delta"])


class _CertificateStatus(NamedTuple):
    """Status of a certificate's proof and claim after the audit.

    proved: the epsilon at the claimed delta, infinite if an audit contradicts its proof. verdict: that of the
    certificate, 'fails' if an audit contradicts the proof. refuted: whether an audit has measured more than is claimed
    or proved. contradicted: whether it has measured more than is proved.
    """

    proved: float
    verdict: str
    refuted: bool
    contradicted: bool


def standing(certificate: Mapping[str, Any]) -> _CertificateStatus:
    """Return the status of a certificate."""
    audit = certificate.get("audit") or {}
    contradicted = bool(audit.get("contradicts_proof"))
    refuted = contradicted or audit.get("verdict") == "refuted"
    if contradicted:
        return _CertificateStatus(math.inf, "fails", refuted, contradicted)
    return _CertificateStatus(proved_epsilon(certificate), certificate["verdict"], refuted, contradicted)


def worst_of(certificates: Sequence[Mapping[str, Any]]) -> int:
    """Return the index of the certificate with the weakest proof; one that its audit contradicts proves nothing.

    Among equal proofs, it is one with a claim that an audit refutes.
    """
    found = [standing(certificate) for certificate in certificates]
    return max(range(len(found)), key=lambda i: (found[i].proved, found[i].refuted))


def privacy_columns(certificate: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a summary on a certificate; infinity is float inf.

    If an audit contradicts the proof, all proved epsilons are infinite. The noise of a count and the least known at the
    claim are there for noisy counts only.
    """
    claimed, proved, stands = certificate["claimed"], certificate["proved"], standing(certificate)
    least = math.inf if stands.contradicted else 0.0
    factor = None if certificate["factor"] is None else max(float(certificate["factor"]), least)
    error, best = certificate.get("error"), certificate.get("best_available")
    return {
        "claimed_epsilon": claimed["epsilon"],
        "claimed_delta": claimed["delta"],
        "proved_epsilon": stands.proved,
        "proved_pure_epsilon": max(float(proved["pure_epsilon"]), least),
        **{f"epsilon_at_{delta}": max(float(value), least) for delta, value in proved["epsilon_at_delta"].items()},
        "verdict": stands.verdict,
        "factor": factor,
        **({"noise_sd": error["rms"], "least_noise_sd": best["rms"]} if error and best else {}),
    }
