"""Attacks on what a cell releases: on its noise, and on everything else that leaves its users."""
