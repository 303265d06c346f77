"""Texts of a certificate, for tables, titles, single lines or in full, from its published JSON form."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from dprl.platform.reports.number_texts import bound, delta_number, number
from dprl.platform.reports.terminal import Table, facts_text
from dprl.platform.results.summary import privacy_columns, proved_epsilon, standing

_SAME = 0.005
_TRUST = {"jdp": "central", "ldp": "local"}
_RAW = "something is released without noise"
_NOTHING = "NO PRIVACY"
ONLY_WITH_DELTA = "only for delta > 0"
_VERDICTS = {"holds": "holds", "holds_approximately": ONLY_WITH_DELTA, "fails": "FAILS"}
AT_DELTA = f"verdict: '{ONLY_WITH_DELTA}' fails as a pure claim, and holds at the claimed epsilon with a small delta"
_NOISE = ("noise_sd", "least_noise_sd")
_CALIBRATIONS = {"printed": "noise as printed", "certified": "certified noise"}


BADGES = {
    "holds": ("\u2713 holds", "The noise certifies the claimed \u03b5 at the claimed \u03b4."),
    "delta": (
        f"\u25d0 holds {ONLY_WITH_DELTA}".replace("delta", "\u03b4"),
        "The claim of pure privacy fails; the same \u03b5 holds at \u03b4 = 10\u207b\u2076.",
    ),
    "fails": ("\u2717 FAILS", "The noise certifies only a larger \u03b5."),
    "nothing": ("\u2298 NO PRIVACY", "The noise certifies no finite \u03b5, although the cell claims one."),
    "refuted": ("\u26a0 REFUTED", "An audit has measured a larger \u03b5 than the claimed or the certified one."),
    "reference": ("\u25cb NO PRIVACY", "Run without noise, for comparison."),
}
"""Words and meanings of verdicts on claims, in the order of a page; they differ in more than colour."""


def badge_of(certificate: Mapping[str, Any]) -> str:
    """Return the key of the badge of a certificate."""
    stands = standing(certificate)
    if stands.refuted:
        return "refuted"
    if certificate["claimed"]["epsilon"] is None:
        return "reference"
    if math.isinf(stands.proved):
        return "nothing"
    return {"holds": "holds", "holds_approximately": "delta"}.get(stands.verdict, "fails")


def trust_word(model: str) -> str:
    """Return a trust model in a word, e.g. 'central'."""
    return _TRUST.get(model, model)


def privacy_text(certificate: Mapping[str, Any]) -> str:
    """Return the trust model and the proved epsilon; a failing claim is shown only as failing."""
    stands = standing(certificate)
    if stands.contradicted:
        return f"{trust_word(certificate['trust_model'])}, NO PRIVACY: its audit REFUTES the proof"
    text = _proof_text(certificate)
    return f"{text}, REFUTED by its audit" if stands.refuted else text


def standing_text(certificate: Mapping[str, Any]) -> str:
    """Return the trust model, the epsilon that is proved, never one that is only claimed, and the verdict."""
    text, stands = privacy_text(certificate), standing(certificate)
    return f"{text}, holds" if stands.verdict == "holds" and not stands.refuted else text


def _proof_text(certificate: Mapping[str, Any]) -> str:
    model, claimed = trust_word(certificate["trust_model"]), certificate["claimed"]
    if certificate["verdict"] == "unbounded":
        return f"{'no privacy' if model == 'none' else f'{model}, NO PRIVACY: {_RAW}'} (\u03b5 = \u221e)"
    if math.isinf(proved_epsilon(certificate)):
        return (
            f"{model}, NO PRIVACY: the noise proves no finite \u03b5 (the claim of {number(claimed['epsilon'])} fails)"
        )
    at = f", \u03b4 = {delta_number(claimed['delta'])}" if claimed["delta"] else ""
    text = f"{model}, certified \u03b5 = {bound(proved_epsilon(certificate))}{at}"
    return text if certificate["verdict"] == "holds" else f"{text} (the claim of {number(claimed['epsilon'])} fails)"


def verdict_line(certificate: Mapping[str, Any]) -> str:
    """Return the certificate in one line, the verdict first."""
    verdict, claimed, audit = certificate["verdict"], certificate["claimed"], certificate.get("audit")
    if audit is not None and standing(certificate).refuted:
        return f"REFUTED by its audit: {audit_text(audit)}"
    if verdict == "unbounded":
        return f"NO PRIVACY: {_RAW}, epsilon is infinite"
    noise = _CALIBRATIONS.get(claimed["calibration"], f"{claimed['calibration']} noise")
    at = f" at delta {claimed['delta']:g}" if claimed["delta"] else ""
    if math.isinf(proved_epsilon(certificate)) and verdict == "fails":
        return f"NO PRIVACY: {noise} proves no finite epsilon{at}, claimed {number(claimed['epsilon'])}"
    told = f"{noise} proves {bound(proved_epsilon(certificate))}{at}, claimed {number(claimed['epsilon'])}"
    if verdict == "holds":
        return f"HOLDS{_where(certificate['noise'])}: {told}"
    told += f" (factor {bound(float(certificate['factor']))})"
    if verdict == "fails":
        return f"FAILS: {told}"
    approximate = certificate["proved"]["epsilon_at_delta"]
    smallest = min(approximate, key=float)
    return (
        f"HOLDS {ONLY_WITH_DELTA.upper()}: {told}; it proves {bound(float(approximate[smallest]))} at delta {smallest}"
    )


def verdict_word(row: Mapping[Any, Any]) -> str:
    """Return the verdict in a word, from `privacy_columns`; without any finite epsilon it is 'NO PRIVACY'."""
    verdict = str(row["verdict"])
    nothing = verdict == "unbounded" or (verdict == "fails" and math.isinf(row["proved_epsilon"]))
    return _NOTHING if nothing else _VERDICTS.get(verdict, verdict)


def certificates_table(labels: Sequence[str], certificates: Sequence[Mapping[str, Any]]) -> tuple[Table, list[str]]:
    """Return one row per certificate, its epsilons and verdict, for counts also noise and the least known; notes."""
    found = [privacy_columns(certificate) for certificate in certificates]
    headers, notes = ["cell", "claim", "delta", "certified", "verdict"], []
    if any(_NOISE[0] in columns for columns in found):
        headers += ["noise", "least known"]
        notes.append("noise: standard deviation of one count (rms over episodes)")
        notes.append(
            "least known: with the best mechanism, counter and families known for it, named above as 'best known'"
        )
    if any(columns["verdict"] == "holds_approximately" for columns in found):
        notes.append(AT_DELTA)
    rows = [[label, *_numbers(columns)][: len(headers)] for label, columns in zip(labels, found, strict=True)]
    return Table(headers, rows, headers[:1]), ["; ".join(notes)] if notes else []


def _numbers(columns: Mapping[str, Any]) -> list[str]:
    claimed = columns["claimed_epsilon"]
    claim = ["-", "-"] if claimed is None else [number(claimed), f"{columns['claimed_delta']:g}"]
    noise = [number(columns[key]) if key in columns else "-" for key in _NOISE]
    return [*claim, bound(columns["proved_epsilon"]), verdict_word(columns), *noise]


def certificate_text(label: str, certificate: Mapping[str, Any]) -> str:
    """Return a certificate as text, with the verdict in the first line and the reasons below it."""
    return facts_text(f"{label}: {verdict_line(certificate)}", certificate_facts(certificate))


def certificate_facts(certificate: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the reasons for a verdict as pairs (subject, text)."""
    requested, claimed, proved = (certificate[key] for key in ("requested", "claimed", "proved"))
    facts = [("protects", f"{certificate['unit']}; neighbours: {certificate['adjacency']}")]
    facts.append(("observer", f"{certificate['trust_model']}: {certificate['observer']}"))
    if requested["epsilon"] is not None:
        facts.append(("requested", f"epsilon {number(requested['epsilon'])}, delta {requested['delta']:g}"))
    if claimed["epsilon"] is not None:
        text = f"epsilon {number(claimed['epsilon'])}, delta {claimed['delta']:g}, by {claimed['source']}"
        facts.append(("claimed", f"{text}; calibration {claimed['calibration']}"))
        if claimed["delta"] * (certificate.get("users") or 0) > 1.0:
            text = "is above 1 / users: publishing the whole record of one random user satisfies such a delta, too"
            facts.append(("delta", text))
    if certificate.get("composition"):
        facts.append(("composed", _composition_text(certificate["composition"])))
    facts.append(("proved", _pure_text(proved, certificate["verdict"])))
    if certificate["verdict"] != "unbounded":
        facts += _approximate_facts(proved, claimed["epsilon"] or requested["epsilon"])
    facts += _attempt_facts(certificate)
    facts += [("noise", _noise_text(noise)) for noise in certificate["noise"]]
    facts += _error_facts(certificate) + _block_facts(certificate)
    if certificate["audit"] is not None:
        facts.append(("measured", audit_text(certificate["audit"])))
    facts += [("covered", name) for name in certificate["covered_channels"]]
    facts += [("not covered", name) for name in certificate["excluded_channels"]]
    return facts


def _composition_text(composition: Mapping[str, Any]) -> str:
    """Return the runs that a joint certificate covers, and their kind of composition."""
    who = "a user is in one of them" if composition["kind"] == "disjoint" else "a user may be in all of them"
    runs = ", ".join(
        f"{each['algorithm']} ({each['users']:,} users, checksum {each['checksum']})" for each in composition["of"]
    )
    return f"{who}: {runs}"


def _block_facts(certificate: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the facts on blocks of users between two releases, which are simulated at once, and on pooled counts."""
    facts = []
    if (number_of := certificate.get("releases")) is not None:
        facts.append(("releases", f"{number_of:,}, on the schedule of plans, which is fixed in advance"))
    if certificate.get("simulation") == "blocks":
        facts.append(("simulated", "in blocks: users between two plans at once, distributed as if one by one"))
    if certificate.get("assumption"):
        facts.append(("assumed", str(certificate["assumption"])))
    return facts


def _where(noises: Sequence[Mapping[str, Any]]) -> str:
    """Return the limits of noise that comes from a seed or is in floating point."""
    limits = {noise[key] for noise in noises for key in ("arithmetic", "entropy")} & {"seeded", "float64-idealised"}
    return " in simulation (" + ", ".join(sorted(limits, reverse=True)) + ")" if limits else ""


def _pure_text(proved: Mapping[str, Any], verdict: str) -> str:
    if all(math.isinf(float(epsilon)) for epsilon in proved["epsilon_at_delta"].values()):
        none = "no finite epsilon, neither pure nor at the deltas below"
        return "pure epsilon inf" if verdict == "unbounded" else none
    if any(math.isinf(float(epsilon)) for epsilon in proved["epsilon_at_delta"].values()):
        return "no pure epsilon: this noise is bounded, and epsilon is finite only from some delta on"
    if math.isinf(float(proved["pure_epsilon"])):
        return "no pure epsilon, but a finite one at each delta below"
    exact = proved["tightness"] == "exact"
    told = "exact: some pair of neighbours attains it" if exact else "an upper bound"
    return f"pure epsilon {bound(float(proved['pure_epsilon']))} ({told})"


def _approximate_facts(proved: Mapping[str, Any], epsilon: float) -> list[tuple[str, str]]:
    at = [f"epsilon {bound(float(value))} at delta {delta}" for delta, value in proved["epsilon_at_delta"].items()]
    facts = [("proved", ", ".join(at))]
    delta = proved["delta_at_requested_epsilon"]
    if delta is not None:
        facts.append(("proved", f"delta {delta:.3g} at epsilon {number(epsilon)}"))
    return facts


def _attempt_facts(certificate: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the cost of restarts, if a run with fresh noise was started again."""
    attempts, again = certificate.get("attempts", 1), certificate.get("users_asked_again", 0)
    if attempts == 1:
        return []
    text = f"{attempts} with fresh noise each; users asked again: {again}; the proof composes all attempts"
    claimed = certificate["claimed"]
    if claimed["epsilon"] is None:
        return [("attempts", text)]
    more = f"claim {attempts} times the epsilon" + (" and the delta" if claimed["delta"] else "")
    return [("attempts", f"{text}: {more}, or run under another name with new users")]


def _error_facts(certificate: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the size of the noise, the choice made, and the least noise known for the same guarantee."""
    error, best = certificate.get("error"), certificate.get("best_available")
    if error is None or best is None:
        return []
    rms, largest = number(error["rms"]), number(error["max"])
    mean = ", rms over a row" if any(noise["mechanism"].endswith("_encoding") for noise in certificate["noise"]) else ""
    text = f"one count of {error['family']}{mean}: standard deviation {rms} (rms over episodes), {largest} at most"
    facts = [("error", text)]
    if certificate["choice"]:
        facts.append(("chosen", certificate["choice"]))
    settings = ", ".join(f"{key}: {best[key]}" for key in ("counter", "mechanism", "families") if best.get(key))
    asked, rms = certificate["requested"], number(best["rms"])
    wanted = f"for epsilon {number(asked['epsilon'])}, delta {asked['delta']:g}: {settings}; standard deviation {rms}"
    visits, fewer = error.get("threshold", 0.0), best.get("threshold", 0.0)
    if best["ratio"] > 1.0 + _SAME:
        known = f"{wanted}, {number(best['ratio'])} times less noise"
    elif visits > (1.0 + _SAME) * fewer > 0.0:
        known = f"{wanted}; counts exceed their standard deviation from {number(fewer)} visits on, not {number(visits)}"
    else:
        known = "this one"
    return [*facts, ("best known", known)]


def audit_text(audit: Mapping[str, Any]) -> str:
    """Return the result of an audit that is attached to a certificate."""
    if "epsilon_lb" not in audit:
        return f"{audit['verdict']}: {audit['note']}"
    bound, level = number(float(audit["epsilon_lb"])), audit["confidence"]
    how = f"confidence {level:g}, {audit['runs']} runs, {audit['method']}"
    claim = audit.get("probe_claim", {}).get("epsilon", "inf")
    of = "" if claim == "inf" else f", of a claim of {number(float(claim))} for {audit['probe_config']}"
    return f"epsilon at least {bound}{of} ({how}): {audit['verdict']}"


def _noise_text(noise: Mapping[str, Any]) -> str:
    if noise["mechanism"] == "raw":
        return f"{noise['release']}: none, {noise['cells']} numbers released without noise"
    nodes = noise.get("nodes_per_user", 1)
    tree = f", a user is in up to {nodes} noisy sums of each" if nodes > 1 else ""
    # A Gram mechanism has one scale per stage, 0 if nothing is sent.
    given = noise.get("parameters", {}).get("scales", []) if noise["scale"] is None else [noise["scale"]]
    scales = sorted(scale for scale in given if scale)
    ends = dict.fromkeys(number(scale) for scale in (*scales[:1], *scales[-1:]))
    scale = f"scale {' to '.join(ends)}, " if ends else ""
    return (
        f"{noise['release']}: {noise['mechanism']}, {scale}"
        f"{noise['cells']} numbers{tree}; {noise['arithmetic']}, {noise['entropy']}"
    )
