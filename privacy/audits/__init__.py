"""Audits: lower bounds on the privacy loss of a mechanism, from its own output, with a stated confidence."""

from __future__ import annotations
