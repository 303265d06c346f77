"""Figures of cells, of comparisons of cells, and of episodes."""
