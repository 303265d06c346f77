"""Random streams and their generators."""

from __future__ import annotations
