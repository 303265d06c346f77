"""Audits: lower bounds on what a mechanism leaks, from its own output, with a stated confidence."""

from __future__ import annotations
