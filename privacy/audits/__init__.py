"""Audits: lower bounds on the privacy loss of a mechanism, from its output, with a stated confidence."""

from __future__ import annotations
