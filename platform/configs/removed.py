"""Keys and names of earlier versions that are gone, and what to write instead."""

from __future__ import annotations

REMOVED: dict[str, str] = {}
"""Remedies by 'section.key', or by 'section.key=value' if only that value is gone."""
