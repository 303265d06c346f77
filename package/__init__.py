"""Differentially private reinforcement learning on Ray, with a privacy certificate for every run."""

from __future__ import annotations

from pathlib import Path

__version__ = "0.2.0"

_HERE = Path(__file__).parent
if not (_HERE / "privacy").is_dir():
    # A checkout: this file lies beside the folders that are its subpackages, not above them as in a wheel.
    __path__ = [*__path__, str(_HERE.parent)]
