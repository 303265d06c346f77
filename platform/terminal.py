"""What the commands print at once: certificates, lists, JSON."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from dprl.platform.verdicts import number, verdict_line

WIDTH = 100


def certificate_text(label: str, certificate: Mapping[str, Any]) -> str:
    """Return a certificate for a reader in a hurry: the verdict in the first line, the grounds below it."""
    requested, claimed, proved = (certificate[key] for key in ("requested", "claimed", "proved"))
    facts = [("protects", f"{certificate['unit']}; neighbours: {certificate['adjacency']}")]
    facts.append(("observer", f"{certificate['trust_model']}: {certificate['observer']}"))
    if requested["epsilon"] is not None:
        facts.append(("requested", f"epsilon {number(requested['epsilon'])}, delta {requested['delta']:g}"))
    if claimed["epsilon"] is not None:
        text = f"epsilon {number(claimed['epsilon'])}, delta {claimed['delta']:g}, by {claimed['source']}"
        facts.append(("claimed", f"{text}; calibration {claimed['calibration']}"))
    facts.append(
        (
            "proved",
            f"pure epsilon {number(float(proved['pure_epsilon']))} ({_tightness(proved['tightness'])})",
        )
    )
    if certificate["verdict"] != "unbounded":
        facts += _approximate_facts(proved, claimed["epsilon"] or requested["epsilon"])
    facts += [("noise", _noise_text(noise)) for noise in certificate["noise"]]
    facts += [("covered", channel) for channel in certificate["covered_channels"]]
    facts += [("not covered", channel) for channel in certificate["excluded_channels"]]
    lines, previous = [f"{label}: {verdict_line(certificate)}"], ""
    for name, text in facts:
        head = f"  {name if name != previous else '':<12}"
        lines += textwrap.wrap(text, WIDTH, initial_indent=head, subsequent_indent=" " * len(head))
        previous = name
    return "\n".join(lines)


def _tightness(word: str) -> str:
    return "exact: some pair of neighbours attains it" if word == "exact" else "an upper bound"


def _approximate_facts(proved: Mapping[str, Any], epsilon: float) -> list[tuple[str, str]]:
    at = [f"epsilon {number(float(value))} at delta {delta}" for delta, value in proved["epsilon_at_delta"].items()]
    facts = [("proved", ", ".join(at))]
    delta = proved["delta_at_requested_epsilon"]
    if delta is not None:
        facts.append(("proved", f"delta {delta:.3g} at epsilon {number(epsilon)}"))
    start = float(proved.get("pure_epsilon_public_start", math.inf))
    if start < float(proved["pure_epsilon"]):
        facts.append(("proved", f"pure epsilon {number(start)} if the first state and action are public"))
    return facts


def _noise_text(noise: Mapping[str, Any]) -> str:
    if noise["mechanism"] == "raw":
        return f"{noise['release']}: none, {noise['cells']} cells leave as they are"
    nodes = noise.get("nodes_per_user", 1)
    tree = f", a user is in up to {nodes} noisy sums of each" if nodes > 1 else ""
    return (
        f"{noise['release']}: {noise['mechanism']}, scale {number(noise['scale'])}, "
        f"{noise['cells']} cells{tree}; {noise['arithmetic']}, {noise['entropy']}"
    )


def listing_text(kinds: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Return what a config can name, kind by kind."""
    blocks = []
    for kind, entries in kinds.items():
        width = max((len(entry["name"]) for entry in entries), default=0)
        lines = [kind]
        for entry in entries:
            lines.append(f"  {entry['name']:<{width}}  {entry['description']}".rstrip())
            details = [entry[key] for key in ("settings", "path") if entry.get(key)]
            lines += [f"  {'':<{width}}  {detail}" for detail in details]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def json_ready(value: object) -> object:
    """Return `value` as strict JSON: infinity as 'inf', NaN as null, NumPy numbers as plain ones."""
    if isinstance(value, Mapping):
        return {str(key): json_ready(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_ready(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value
