"""Inference over seeds: intervals, bands of whole curves, tests between cells."""
