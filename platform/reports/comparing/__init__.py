"""Cells that can be compared: read, grouped, tested and told as data."""
