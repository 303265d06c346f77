"""Mechanisms: each randomises numbers of one kind, knows what its scale proves, the scale a guarantee needs."""

from __future__ import annotations
