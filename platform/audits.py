"""Audit of a cell, through the privatizer that its run would use.

A cell's noise is attacked at small probes: a violation that is spread over many numbers is too improbable for sampling,
but the same noise at H = 1 shows it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, cast

from dprl.platform.configs.experiment import Experiment
from dprl.platform.errors import counted
from dprl.privacy import CountPrivacy, CountPrivatizer, Privatizer, StatisticsPrivacy, StatisticsPrivatizer, Streams
from dprl.privacy.accounting.composition import compose
from dprl.privacy.audits.distinguishing_attack import audit_page, measure
from dprl.privacy.audits.findings import Attack, Claim, Finding, Measurement, audit_summary, proof_of
from dprl.privacy.audits.message_probes import gradient_messages
from dprl.privacy.audits.privatizer_probes import (
    central_prefixes,
    counter_prefixes,
    local_reports,
    probe_families,
    statistics_messages,
    statistics_prefixes,
)
from dprl.privacy.designs.base import AUTO
from dprl.privacy.ledger import Ledger
from dprl.privacy.mechanisms.base import IDEALISED
from dprl.privacy.noise_design import NoiseDesign
from dprl.privacy.queries.counts import CountQuery
from dprl.privacy.queries.gradients import GradientQuery
from dprl.privacy.queries.linear_statistics import StatisticsQuery
from dprl.privacy.randomness.streams import NoiseConfig
from dprl.privacy.threat_models import SHUFFLE

DEFAULT_RUNS = 50_000
COUNT_PROBES = ((1, 3), (2, 5))
"""(H, K) of the probes of counts."""
STATISTICS_PROBES = ((2, 2, 1), (3, 4, 2))
"""(H, D, n) of the probes of statistics."""
_LONG = 1000.0  # length of features in the attack on unclipped messages, in units of the bound
_MOST_SUBMISSIONS = 16  # maximum of one agent's submissions in one attack
_USERS = 3  # users of a probe, where their number is free
_WINDOWS = 5  # windows of gradients in an attack on a counter


def claim_of(privatizer: Privatizer[Any]) -> Claim:
    """Return the claim of a cell, with an infinite epsilon if nothing is claimed."""
    claimed = privatizer.design.claimed
    if claimed is None:
        return Claim(math.inf, source=privatizer.design.source)
    return Claim(claimed.epsilon, claimed.delta, privatizer.design.source)


class _AuditedCell(NamedTuple):
    """A cell under audit, with its privatizer, claim and planned ledger."""

    experiment: Experiment
    privatizer: Any
    claim: Claim
    ledger: Ledger
    seed: int


def audit_experiment(experiment: Experiment, runs: int = DEFAULT_RUNS, seed: int = 0) -> list[Finding]:
    """Return the findings on one cell: attacks on its noise, or the proof alone if there is no noise or no probe.

    All measured bounds together are wrong with probability 1e-6 at most. Raises ValueError if the settings do not fit
    together.
    """
    made: Any = experiment.privatizer()
    cell = _AuditedCell(experiment, made, claim_of(made), made.planned_ledger(), seed)
    attacks = _ATTACKS[experiment.algorithm.releases](cell, runs)
    return audit_page(attacks or [_case(cell, "noise", None, runs)], seed)


def attached_audit(experiment: Experiment) -> dict[str, Any]:
    """Return the audit for a run's certificate; noise without a small probe is reported, so that no run is lost."""
    try:
        return audit_summary(audit_experiment(experiment))
    except ValueError as error:
        return {"verdict": "not sampled", "note": f"the probe cannot be built: {error}"}


def last_bits(experiment: Experiment) -> str | None:
    """Return a remark on the float64 noise of a cell; None if noise is not idealised."""
    noises = [release.mechanism for release in experiment.privatizer().design.releases]
    if all(noise is None or noise.arithmetic != IDEALISED for noise in noises):
        return None
    return "those of float64 noise can reveal data: the proof is for real numbers, and nothing is measured of them"


def _case(cell: _AuditedCell, name: str, attack: Attack | None, runs: int) -> Finding:
    """Return an attack on the cell's claim."""
    design = cell.ledger.design
    proof = proof_of(cell.ledger.curve, cell.claim, exact=design.attained, raw=design.has_raw_release)
    return Finding(name, _noise_text(design), cell.claim, proof, attack=attack, runs=runs)


def _noise_text(design: NoiseDesign[Any]) -> str:
    """Return the noise of each channel in a few words: mechanism, its least and largest scale, and counter."""
    channels: dict[str, list[str]] = {}

    def add(name: str, law: Any, counter: Any) -> None:  # noqa: ANN401 - any mechanism and counter
        scales = sorted(scale for scale in getattr(law, "scales", (getattr(law, "scale", 0.0),)) if scale)
        ends = dict.fromkeys(f"{scale:.4g}" for scale in (*scales[:1], *scales[-1:]))
        text = "no noise" if law is None else law.name + f", scale {' to '.join(ends)}" * bool(ends)
        channels.setdefault(text if counter is None else f"{text}, {counter.name}", []).append(name)

    for release in design.releases:
        add(release.channel, release.mechanism, release.counter)
    told = "; ".join(f"{', '.join(names)}: {text}" for text, names in channels.items())
    return told + f", {design.submissions} submissions an agent" * (design.submissions > 1)


def _streams(experiment: Experiment, seed: int) -> Streams:
    """Return the streams for probes of a cell, which none of its runs uses."""
    # Seeded, because entropy of the operating system cannot be drawn twice; the law of the noise is the same.
    return Streams(seed, f"audit|{experiment.digest}", NoiseConfig(experiment.noise.arithmetic, "seed"))


def count_privatizer(experiment: Experiment, horizon: int, episodes: int, seed: int = 0) -> CountPrivatizer:
    """Return the privatizer of the cell's settings for its algorithm's families, with fewer steps and episodes."""
    query, privacy = cast(CountPrivatizer, experiment.privatizer()).query, cast(CountPrivacy, experiment.privacy)
    # 'auto' may choose other noise for few users.
    parts = {"mechanism": query.law, "counter": query.counter if query.counter.node else None}
    chosen = {key: part.name for key, part in parts.items() if part and getattr(privacy, key, None) == AUTO}
    privacy = replace(privacy, **chosen)  # type: ignore[arg-type]
    if privacy.model == SHUFFLE:  # few users cannot represent a block, so messages are attacked before shuffling
        each = query.events("seeded")[0].curve().pure_epsilon
        privacy = CountPrivacy("ldp", each, families="one_hot", mechanism=privacy.mechanism)
    families = probe_families(query.families, horizon)
    return privacy.build(families, episodes - 1, _streams(experiment, seed), growth=_growth(query))


def statistics_privatizer(experiment: Experiment, sizes: tuple[int, int, int], seed: int = 0) -> StatisticsPrivatizer:
    """Return the privatizer of the cell's settings for `sizes`: H stages, D dimensions, n agents."""
    whole = cast(StatisticsPrivatizer, experiment.privatizer())
    (horizon, dimension, n), layout = sizes, whole.query.layout
    messages = 1 if layout.n_messages == 1 else n
    small = replace(layout, horizon=horizon, dimension=dimension, n_messages=messages, n_agents=n, reward_dimension=1)
    privacy = cast(StatisticsPrivacy, experiment.privacy)
    users = _USERS if whole.server_noise else 1
    return privacy.build(small, users, _streams(experiment, seed), growth=_growth(whole.query))


def _growth(query: CountQuery | StatisticsQuery) -> float:
    """Return the growth of the schedule of releases, 0 for none."""
    return 0.0 if query.schedule is None else query.schedule.growth


def _count_attacks(cell: _AuditedCell, runs: int) -> list[Finding]:
    probes = COUNT_PROBES if cell.privatizer.trust_model != "none" else ()
    return [_case(cell, f"H={h} K={k}", partial(_attack_counts, cell, h, k), runs) for h, k in probes]


def _attack_counts(cell: _AuditedCell, horizon: int, episodes: int, **attack: Any) -> Measurement:  # noqa: ANN401 - see `Attack`
    made = count_privatizer(cell.experiment, horizon, episodes, cell.seed)
    before = ", before it is shuffled" if cell.privatizer.trust_model == SHUFFLE else ""
    claim, label = claim_of(made), f"H={horizon} K={episodes}{before}"
    probe = central_prefixes(made, label) if made.server_noise else local_reports(made, label)
    return measure(probe, claim, proof_of(made.planned_ledger().curve, claim), **attack)


def _gradient_attacks(cell: _AuditedCell, runs: int) -> list[Finding]:
    """Return the attacks on all submissions of one agent together, one per release with noise that has a probe."""
    ledger, cases = cell.ledger, []
    if cell.privatizer.query.counter is not None:
        return [_case(cell, f"{_WINDOWS} updates", partial(_attack_running_sums, cell), runs)]
    together = ledger.design.submissions if ledger.design.submissions <= _MOST_SUBMISSIONS else 1
    for release in ledger.design.releases:
        probe = gradient_messages(release.mechanism, summed=cell.privatizer.server_noise)
        if probe is not None:
            attack = partial(measure, probe.together(together), cell.claim, proof_of(ledger.curve, cell.claim))
            cases.append(_case(cell, release.channel, attack, runs))
    return cases


def _attack_running_sums(cell: _AuditedCell, **attack: Any) -> Measurement:  # noqa: ANN401 - see `Attack`
    """Return the attack on all running sums of a few updates, with the counter for that number."""
    experiment, query = cell.experiment, cast(GradientQuery, cell.privatizer.query)
    users, streams = _WINDOWS * max(_USERS, query.window), _streams(experiment, cell.seed)
    made = experiment.algorithm.privatizer(experiment.environment(), experiment.privacy, users, streams)
    claim, radius = claim_of(made), made.query.law.sensitivity.l2 / 2.0
    probe = counter_prefixes(made.query.counter, (radius,), (-radius,), f"{_WINDOWS} updates")
    return measure(probe, claim, proof_of(made.planned_ledger().curve, claim), **attack)


def _statistics_attacks(cell: _AuditedCell, runs: int) -> list[Finding]:
    """Return attacks in few dimensions: the more numbers a user changes, the less samples show of the worst case."""
    if cell.privatizer.trust_model == "none":
        return []
    cases = []
    for h, d, n in STATISTICS_PROBES:
        for reach, long in ((1.0, ""),) if cell.privatizer.query.clipped else ((1.0, ""), (_LONG, " long")):
            cases.append(_case(cell, f"H={h} D={d}{long}", partial(_attack_statistics, cell, (h, d, n), reach), runs))
    return cases


def _attack_statistics(cell: _AuditedCell, sizes: tuple[int, int, int], reach: float, **attack: Any) -> Measurement:  # noqa: ANN401 - see `Attack`
    h, d, _ = sizes
    made = statistics_privatizer(cell.experiment, sizes, cell.seed)
    long = f", features {reach:g} times as long as H - h, which the device does not cut" if reach > 1.0 else ""
    agents, claim = counted(made.query.layout.n_messages, "message"), claim_of(made)
    if made.server_noise:
        prefixes = statistics_prefixes(made.query, f"H={h}, D={d}, {agents} a stage, {made.n_users} users")
        return measure(prefixes, claim, proof_of(made.planned_ledger().curve, claim), **attack)
    probe = statistics_messages(made.query, f"H={h}, D={d}, {agents} a stage, those that change most{long}", reach)
    # Corrections without noise are not attacked: the proof counts them as raw.
    noisy = [release.curve() for release in made.design.releases if release.mechanism is not None]
    return measure(probe, claim, proof_of(compose(noisy), claim), **attack)


_ATTACKS: dict[str, Callable[[_AuditedCell, int], list[Finding]]] = {
    "counts": _count_attacks,
    "gradients": _gradient_attacks,
    "statistics": _statistics_attacks,
}
"""Attacks on a cell, by the kind of its releases."""
