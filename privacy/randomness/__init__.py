"""Random streams: which are there, who may share what, and the generators behind them."""

from __future__ import annotations
