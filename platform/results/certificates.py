"""Certificate files in any folder: reads, verifies and composes them, with errors for users."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dprl.platform.configs.experiment import NOT_OF_NOISE
from dprl.platform.configs.yaml_text import read_yaml
from dprl.platform.errors import UserError, broken_rule, first_line, shown
from dprl.platform.results.cell_folder import CellFolder
from dprl.platform.results.home import home_folder
from dprl.platform.results.layout import sweep_layout
from dprl.privacy import Certificate, LedgerError
from dprl.privacy.verification import Verification, compose_certificates, verify

NAME = "certificate.json"
CertificateSource = str | Path | Mapping[str, Any] | Certificate
"""The path of a certificate or of a folder that holds one, its content, or the certificate itself."""


def expanded(words: Sequence[str], *, whole: bool = False) -> list[tuple[str, str]]:
    """Return paths of certificates or of cells; a sweep's folder, or its name, stands for its finished cells.

    A path is there as often as it is named. A cell of a sweep has its label beside it, '' if the sweep has no summary;
    other paths have ''. whole: whether all cells of a sweep must be finished. Raises UserError for other sweeps, and
    for those without finished cells.
    """
    return [found for word in words for found in (_cells_of(word, whole) or [(word, "")])]


def _cells_of(word: str, whole: bool) -> list[tuple[str, str]]:
    path = Path(word)
    if path.exists() and not (path / "cells").is_dir():
        return []
    try:
        layout = sweep_layout(home_folder(None, written=False), word)
    except UserError:  # not a sweep: reading it as a certificate tells the rule
        return []
    cells = layout.require_finished()
    if whole and len(cells) < (planned := len(layout.grid().cells)):
        rule = "must be finished, because cells that are not may have asked users, too"
        found = f"{len(cells)} of {planned} cells of {layout.name}"
        raise broken_rule("SWEEP", rule, found, f"resume with `{layout.status()['command']}`")
    labels: Any = layout.summary().set_index("cell")["label"].astype(str) if layout.summary_file.is_file() else {}
    return [(os.path.relpath(cell.path), labels.get(cell.path.name, "")) for cell in cells]


def certificates_in(source: CertificateSource) -> dict[str, Mapping[str, Any]]:
    """Return the certificates of a source by their labels: one, or all of a file from `dprl certify --json`.

    Raises UserError for a file that cannot be read.
    """
    if isinstance(source, Certificate):
        return {source.algorithm: json.loads(json.dumps(source.to_dict()))}
    if isinstance(source, Mapping):
        return {str(source.get("algorithm", "certificate")): source}
    if not isinstance(source, (str, Path)):
        raise broken_rule("CERT", "must be a path, a mapping or a Certificate", source, "name a certificate.json")
    path = Path(source)
    file = path / NAME if path.is_dir() else path
    remedy = f"name a {NAME}, a cell's folder or a sweep"
    try:
        found = json.loads(file.read_text(encoding="utf-8"), object_pairs_hook=_once)
    except FileNotFoundError:
        raise broken_rule("CERT", f"{NAME if path.is_dir() else 'file'} not found", str(source), remedy) from None
    except OSError as error:
        raise broken_rule("CERT", f"cannot be read ({error.strerror})", str(source), remedy) from None
    except (ValueError, RecursionError) as error:
        rule = f"must be valid JSON with each field once ({first_line(error)})"
        raise broken_rule("CERT", rule, str(source), f"{remedy}, or restore the file") from None
    if not isinstance(found, list):
        return {str(source): found}
    if not found:
        raise broken_rule("CERT", "must contain at least one certificate", str(source), remedy)
    return {f"{source}[{i}]": each for i, each in enumerate(found)}


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a mapping; raise ValueError for a repeated key, because another reader may use the other value."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"{shown(key)} is stated more than once")
        found[key] = value
    return found


def verified(label: str, certificate: Mapping[str, Any]) -> Verification:
    """Return the result of recomputing a certificate. Raises UserError if it is damaged or has an old schema."""
    try:
        return verify(certificate)
    except LedgerError as error:
        raise UserError(f"{label}: {error}") from None


def composed(sources: Sequence[CertificateSource], disjoint: bool) -> Certificate:
    """Return the joint certificate of several runs. Raises UserError if they cannot be composed."""
    labelled = [pair for source in sources for pair in certificates_in(source).items()]
    try:
        found = compose_certificates([one for _, one in labelled], disjoint, [label for label, _ in labelled])
    except LedgerError as error:
        raise UserError(f"CERT: {error}") from None
    _require_separate_runs([source for source in sources if isinstance(source, str | Path)])
    return found


def _require_separate_runs(paths: Sequence[str | Path]) -> None:
    """Raise UserError if two paths lead to one run, or to cells that drew noise from equal settings and an equal seed.

    Equal certificates may be of separate runs: they state neither the seed nor the run.
    """
    files, drawn = set[Path](), set[str]()
    for path in map(Path, paths):
        file = (path / NAME if path.is_dir() else path).resolve()
        if file in files:
            rule = "must name each run once: its noise is not independent of itself"
            raise broken_rule("CERT", rule, str(path), "name the certificate of another run, or leave it out")
        files.add(file)
        cell = CellFolder(file.parent)
        if file != cell.certificate_file or not cell.experiment_file.is_file():
            continue
        noises = [(each["request"] or {}).get("noise") or {} for each in certificates_in(file).values()]
        if not any(noise.get("entropy") == "seed" for noise in noises):
            continue
        noise = _noise_of(cell, str(path))
        if noise in drawn:
            rule = "must be of runs with independent noise, and another one has equal settings and an equal seed"
            raise broken_rule("CERT", rule, str(path), "run one of them with another seed")
        drawn.add(noise)


def _noise_of(cell: CellFolder, path: str) -> str:
    """Return the settings and sources that determine a cell's noise, as `Experiment.streams_context` has them.

    The settings are read as text, because the plugins of the cell may be missing here. Raises UserError.
    """
    try:
        settings: Any = read_yaml(cell.experiment_file.read_text(encoding="utf-8"), path)
        settings["algorithm"].pop("label", None)
        told = {key: value for key, value in settings.items() if key not in NOT_OF_NOISE}
        return json.dumps([told, cell.versions().get("results_version")], sort_keys=True, default=str)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, UserError):
        rule = f"must have a valid {cell.experiment_file.name} and {cell.versions_file.name} beside it"
        raise broken_rule("CERT", rule, path, "restore the folder of the cell") from None
