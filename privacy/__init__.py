"""Noise and its price: mechanisms, counters, privatizers, the ledger and the certificate. Knows no learning."""

from __future__ import annotations
