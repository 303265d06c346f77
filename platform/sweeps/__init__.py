"""Sweeps: run the cells of a grid in slices, with locks and resumption, in this process or on Ray."""
