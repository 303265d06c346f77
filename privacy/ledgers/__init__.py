"""Ledgers: what is released, charged before it happens, and what of it survives a crash."""
