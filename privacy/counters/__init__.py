"""Counters: continual release of running sums, with the exact privacy and the exact error of each."""

from __future__ import annotations
