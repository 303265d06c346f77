"""Texts of a certificate, for tables, titles, single lines or in full, from its published JSON form."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from markupsafe import Markup

from dprl.platform.reports.number_texts import bound, number
from dprl.platform.reports.templates import sentence, template
from dprl.platform.reports.terminal import Table, facts_text
from dprl.platform.results.summary import privacy_columns, standing
from dprl.privacy.noise_design import SEEDED

_LARGEST = 20.0  # largest epsilon whose factor e^epsilon is shown on a page
_TRUST = {"jdp": "central", "ldp": "local"}
AT_DELTA = "verdict: 'only for delta > 0' fails as a pure claim, and holds at the claimed epsilon with a small delta"


class Verdict(NamedTuple):
    """Texts of a verdict on a claim: in tables of the terminal, on badges of pages, and as a sentence."""

    word: str
    badge: str
    meaning: str


VERDICTS = {
    "holds": Verdict("holds", "\u2713 holds", "The noise certifies the claimed \u03b5 at the claimed \u03b4."),
    "delta": Verdict(
        "only for delta > 0",
        "\u25d0 holds only for \u03b4 > 0",
        "The claim of pure privacy fails; the same \u03b5 holds at \u03b4 = 10\u207b\u2076.",
    ),
    "fails": Verdict("FAILS", "\u2717 FAILS", "The noise certifies only a larger \u03b5."),
    "nothing": Verdict(
        "NO PRIVACY", "\u2298 NO PRIVACY", "The noise certifies no finite \u03b5, although one is claimed."
    ),
    "refuted": Verdict(
        "REFUTED", "\u26a0 REFUTED", "An audit has measured a larger \u03b5 than the claimed or the certified one."
    ),
    "reference": Verdict(
        "NO PRIVACY", "\u25cb NO PRIVACY", "This run has no noise and protects nobody: it is for comparison."
    ),
}
"""Texts of verdicts by their ids, in the order of a page; badges differ in more than colour."""
_FACTS = [
    *("protects", "observer", "requested", "claimed", "delta", "composed", "proved", "attempts", "noise", "error"),
    *("chosen", "best_known", "releases", "simulated", "assumed", "measured", "covered", "not_covered"),
]
"""Facts of a certificate: names of their sentences, in order."""


def verdict_id(certificate: Mapping[str, Any]) -> str:
    """Return the id of the verdict of a certificate, a key of `VERDICTS`."""
    stands = standing(certificate)
    if stands.refuted:
        return "refuted"
    if certificate["claimed"]["epsilon"] is None:
        return "reference"
    return _by_numbers(stands.verdict, stands.proved)


def _by_numbers(verdict: str, proved: float) -> str:
    return "nothing" if math.isinf(proved) else "delta" if verdict == "holds_approximately" else verdict


def verdict_word(row: Mapping[Any, Any]) -> str:
    """Return the verdict of a row of `privacy_columns` in a word; without a finite epsilon it is 'NO PRIVACY'."""
    return VERDICTS[_by_numbers(str(row["verdict"]), row["proved_epsilon"])].word


def badge(key: str) -> Markup:
    """Return the badge of a verdict."""
    return Markup('<span class="badge {}">{}</span>').format(key, VERDICTS[key].badge)


def trust_word(model: str) -> str:
    """Return a trust model in a word, e.g. 'central'."""
    return _TRUST.get(model, model)


def verdict_line(certificate: Mapping[str, Any]) -> str:
    """Return the certificate in one line, the verdict first."""
    known = {noise[key] for noise in certificate["noise"] for key in ("arithmetic", "entropy")}
    return sentence(
        "line",
        certificate,
        verdict_id(certificate),
        standing(certificate).proved,
        limits=[word for word in ("seeded", "float64-idealised") if word in known],
        smallest=min(certificate["proved"]["epsilon_at_delta"], key=float),
    )


def certificate_facts(certificate: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the reasons for a verdict as pairs (subject, text)."""
    several = {
        "noise": certificate["noise"],
        "measured": [certificate["audit"]] if certificate["audit"] else [],
        "covered": certificate["covered_channels"],
        "not_covered": certificate["excluded_channels"],
    }
    texts = [(name, sentence(name, each)) for name in _FACTS for each in several.get(name, [certificate])]
    return [(name.replace("_", " "), text) for name, text in texts if text]


def certificate_page(certificate: Mapping[str, Any], versions: Mapping[str, Any], title: str) -> str:
    """Return the content of a `Certificate.to_dict` as a self-contained HTML page to read, print and sign.

    versions: of the software that made it. title: names the cell.
    """
    verdict, epsilon = verdict_id(certificate), standing(certificate).proved
    return template("certificate").render(
        c=certificate,
        title=f"Privacy certificate: {title}",
        badge=badge(verdict),
        verdict=verdict,
        meaning=VERDICTS[verdict].meaning,
        line=verdict_line(certificate),
        epsilon=epsilon,
        times=math.exp(epsilon) if epsilon < _LARGEST else None,
        private=certificate["claimed"]["epsilon"] is not None,
        seeded=any(noise["entropy"] == SEEDED for noise in certificate["noise"] if noise["mechanism"] != "raw"),
        facts=certificate_facts(certificate),
        versions=versions,
    )


def certificate_text(label: str, certificate: Mapping[str, Any]) -> str:
    """Return a certificate as text, with the verdict in the first line and the reasons below it."""
    return facts_text(f"{label}: {verdict_line(certificate)}", certificate_facts(certificate))


def certificates_table(labels: Sequence[str], certificates: Sequence[Mapping[str, Any]]) -> tuple[Table, list[str]]:
    """Return one row per certificate, its epsilons and verdict, for counts also noise and the least known; notes."""
    rows, notes = [], []
    for label, certificate in zip(labels, certificates, strict=True):
        columns, claimed = privacy_columns(certificate), certificate["claimed"]
        row = {
            "cell": label,
            "claim": "-" if claimed["epsilon"] is None else number(claimed["epsilon"]),
            "delta": "-" if claimed["epsilon"] is None else f"{claimed['delta']:g}",
            "certified": bound(columns["proved_epsilon"]),
            "verdict": verdict_word(columns),
        }
        noise = {"noise": columns.get("noise_sd"), "least known": columns.get("least_noise_sd")}
        rows.append(row | {name: number(value) for name, value in noise.items() if value is not None})
    if any("noise" in row for row in rows):
        notes.append("noise: standard deviation of one count, rms over episodes; least known: of the best known noise")
    if any(row["verdict"] == VERDICTS["delta"].word for row in rows):
        notes.append(AT_DELTA)
    return Table.of(rows, ("cell",)), ["; ".join(notes)] if notes else []
