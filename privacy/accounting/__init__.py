"""What releases add up to: privacy curves and their composition."""

from __future__ import annotations
