"""Comparable cells: reads, groups and tests them, and returns the results as data."""
