"""Numbers of a finished cell: its records, its row of summary.csv, and its certificate after the audit."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dprl.algorithms import ALGORITHMS, Metric
from dprl.algorithms.base import REGRET, SATURATED, headline
from dprl.algorithms.offline_vi import LOWER_BOUND
from dprl.platform.configs.experiment import Experiment
from dprl.platform.results.inference import bands, estimate, median_interval

if TYPE_CHECKING:  # `dprl certify` reads certificates, and pandas is slow to load
    import pandas as pd

    from dprl.platform.results.cell_folder import CellResults

_ENDS = ("", "_lower", "_upper")  # suffixes of the columns of a number and of the ends of its interval
SATURATION_NOTE = (
    "bonus saturated: estimates stayed at their caps, so regret grew linearly; try more episodes, a larger epsilon or, "
    "without a theorem, a smaller algorithm.bonus_scale"
)
PROVES_NOTHING = "the release proves nothing"
FINAL_SCORE = "Final score"
_JUDGED = {"run": "", "deployed": " of the policy deployed last", "output": " of the output policy"}


# ---- metrics ----


def is_result(metric: Metric) -> bool:
    """Whether tables show a metric beside the headline."""
    return metric.over == "last" and bool(metric.short) and not metric.headline


def is_gap(metric: Metric) -> bool:
    """Whether a metric is the loss of the output policy, in reward."""
    return is_result(metric) and metric.of == "output" and metric.unit == "reward" and metric.better == "low"


def is_final_score(metric: Metric) -> bool:
    """Whether a metric is the score at the end of a run."""
    return is_result(metric) and metric.better == "high" and metric.unit in ("return", "steps")


def title_of(metric: Metric) -> str:
    """Return the name of a metric in tables and figures of pages, e.g. 'Regret'."""
    return FINAL_SCORE if is_final_score(metric) else metric.label.capitalize()


def full_label(metric: Metric) -> str:
    """Return the label of a metric with the policy that it judges."""
    return f"{metric.label}{_JUDGED[metric.of]}"


def headline_label(metric: Metric | None, unit: str) -> str:
    """Return the name of a headline, per episode if it is a sum, e.g. 'Regret per episode'; '' without one."""
    if metric is None:
        return ""
    return f"{metric.label.capitalize()} per {unit}" if metric.over == "sum" else metric.label.capitalize()


def known_metrics() -> list[Metric]:
    """Return the metrics of all algorithms, one per name."""
    return list({metric.name: metric for config in ALGORITHMS.values() for metric in config.metrics}.values())


def results_in(found: Collection[str], kind: Callable[[Metric], bool] = is_result) -> list[Metric]:
    """Return the metrics of all algorithms that are of this kind, with columns among those `found`."""
    return [metric for metric in known_metrics() if kind(metric) and metric.name in found]


def headlines_in(found: Collection[str]) -> list[Metric]:
    """Return the headlines of all algorithms with columns among those `found`."""
    # An algorithm's metric of the same name that is no headline has no column of the first block.
    return [metric for metric in known_metrics() if metric.headline and f"{block_column(metric)}_first" in found]


def unit_of(rows: Iterable[Mapping[Any, Any]]) -> str:
    """Return the word for an episode of these cells; for gradients it is 'user' if each user has one episode."""
    units = set()
    for row in rows:
        config = ALGORITHMS.get(str(row.get("algorithm.name")))
        unit = "episode" if config is None else config.unit
        once = config is not None and config.releases == "gradients" and not row.get("privacy.submissions", 1) > 1
        units.add("user" if once and unit == "episode" else unit)
    return units.pop() if len(units) == 1 else "episode"


# ---- records ----


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


def by_seed(records: pd.DataFrame, column: str = REGRET.name) -> tuple[np.ndarray, np.ndarray]:
    """Return the last episodes of blocks, [B], and `column` at each of them for every seed, [B, seeds].

    Raises ValueError unless the records have the same episodes of every seed.
    """
    ordered = records.sort_values(["seed", "episode"])
    episodes = ordered["episode"].to_numpy().reshape(ordered["seed"].nunique(), -1)
    if (episodes != episodes[0]).any():
        raise ValueError("records must have the same episodes of every seed")
    return episodes[0], ordered[column].to_numpy().reshape(len(episodes), -1).T


def learned_nothing(records: pd.DataFrame) -> bool:
    """Whether over 99 % of the estimates stayed at their caps throughout, and some regret was left to reduce."""
    if SATURATED.name not in records or (REGRET.name in records and not records[REGRET.name].any()):
        return False
    return bool(by_seed(records, SATURATED.name)[1].mean(axis=1).min() > 0.99)


def halved_at(records: pd.DataFrame) -> np.ndarray:
    """Return the episode when each seed's regret per episode has halved, float64[n_seeds]; inf if it never does.

    It is the end of the first block with a mean regret per episode of at most half the first record's, if the means
    from there to the end of every later block are as small. So a temporary dip does not count, even if a long run ends
    well. Nor does the last block, because no later one confirms it.
    """
    ends, values = by_seed(records)
    total, ends = values.T, ends.astype(np.float64)
    target = total[:, :1] / ends[0] / 2
    # Over a range of episodes, the mean is at most the target exactly if the excess does not rise.
    excess = total - target * ends
    highest_later = np.maximum.accumulate(excess[:, ::-1], axis=1)[:, ::-1][:, 1:]
    below = np.diff(excess, axis=1, prepend=0.0)[:, :-1] <= 0.0
    lasting = below & (highest_later <= excess[:, :-1])
    return np.where(lasting.any(axis=1), ends[lasting.argmax(axis=1)], math.inf)


# ---- a row of summary.csv ----


def summary_row(experiment: Experiment, results: CellResults) -> dict[str, Any]:
    """Return one cell's row of summary.csv: its settings, its metrics with intervals, its privacy.

    Infinity is float inf in the row.
    """
    metrics, records = experiment.metrics, results.records
    finals = final_numbers(metrics, results)
    labels = {"cell_label": experiment.label, "algorithm_label": experiment.algorithm_label}
    row: dict[str, Any] = {"cell": experiment.digest, **experiment.parameters()}
    row |= {key: label for key, label in labels.items() if label}
    for metric in metrics:
        row |= _metric_columns(metric, records, horizon_of(experiment))
    note = SATURATION_NOTE if learned_nothing(records) else ""
    if not getattr(experiment.algorithm, "online", True):
        last = records[records["episode"] == records["episode"].max()]
        nothing = {LOWER_BOUND.name, SATURATED.name} <= {*records} and not last[LOWER_BOUND.name].any()
        share = f"{last[SATURATED.name].mean():.0%}" if nothing else ""
        note = f"{PROVES_NOTHING} (lower bound 0); actions are arbitrary in {share} of all (h, s, a)" if nothing else ""
    low, high = map(float, getattr(experiment.env, "reward_range", (0.0, 1.0)))  # of the own rewards, mapped to [0, 1]
    if (low, high) != (0.0, 1.0):
        finals |= {"derived_reward_low": low, "derived_reward_high": high}
    return {**row, **finals, "theorem": results.theorem, "note": note}


def headline_numbers(metrics: Sequence[Metric], records: pd.DataFrame, horizon: float) -> dict[str, float]:
    """Return the headline of the whole run, as the summary has it, with the ends of its interval; {} without one."""
    metric = headline(metrics)
    found = {} if metric is None else _metric_columns(metric, records, horizon)
    return {name: value for name, value in found.items() if metric and name.removeprefix(metric.name) in _ENDS}


def final_numbers(metrics: Sequence[Metric], results: CellResults) -> dict[str, Any]:
    """Return the numbers of a finished cell only: medians with intervals, halving, privacy, derived numbers."""
    records, found = results.records, dict[str, Any]()
    for metric in metrics:
        if metric.across == "median":
            found |= _metric_columns(metric, records, math.inf)
    # Without any regret in the first policy there is nothing to halve.
    if REGRET in metrics and records.loc[records["episode"] == records["episode"].min(), "regret"].any():
        values = halved_at(records)
        found |= {**_named("halved_at", median_interval(values)), "halved_share": float(np.isfinite(values).mean())}
    derived = {f"derived_{name}": value for name, value in results.derived.items()}
    return {**found, **privacy_columns(results.certificate), **derived}


def horizon_of(experiment: Experiment) -> float:
    """Return the largest number of steps of an episode."""
    return float(experiment.parameters().get("env.horizon", math.inf))


def _metric_columns(metric: Metric, records: pd.DataFrame, horizon: float) -> dict[str, float]:
    """Return the summary's columns of a metric, see docs/metrics.md."""
    low, high = metric.range(horizon)
    name, (episodes, values) = metric.name, by_seed(records, metric.name)
    last, lengths = values[-1], np.diff(episodes, prepend=0)
    if metric.across == "median":
        return _named(name, median_interval(last))
    if metric.over == "last":
        return _with_band(name, last, (low, high))
    if metric.over == "mean":
        if not metric.headline:
            run = float(np.average(bands(values)[0], weights=lengths))
            return {name: run, f"{name}_last": float(last.mean())}
        return {
            **_with_band(name, np.average(values, axis=0, weights=lengths), (low, high)),
            **_with_band(f"{name}_last", last, (low, high)),
            f"{name}_first": float(values[0].mean()),
        }
    each, n_episodes = per_episode(metric), episodes[-1]
    blocks = by_seed(records, each)[1]
    return {
        **_with_band(name, last, (low * n_episodes, high * n_episodes)),
        **_with_band(f"mean_{name}", last / n_episodes, (low, high)),
        **_with_band(f"{each}_last", blocks[-1], (low, high)),
        f"{each}_first": float(blocks[0].mean()),
    }


def _with_band(name: str, values: np.ndarray, bounds: tuple[float, float]) -> dict[str, float]:
    """Return the mean over seeds and the ends of its interval, NaN for few seeds, cut at bounds that hold the mean."""
    found = estimate(values)
    if bounds[0] <= found.value <= bounds[1]:
        found = estimate(values, "linear", bounds)
    return _named(name, found[:3])


def _named(name: str, numbers: tuple[float, float, float]) -> dict[str, float]:
    """Return a number and the ends of its interval by their columns."""
    return {f"{name}{end}": number for end, number in zip(_ENDS, numbers, strict=True)}


# ---- certificates ----


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
