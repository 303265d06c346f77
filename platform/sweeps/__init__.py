"""The cells of a grid: run in slices, resumed, locked, in this process or on Ray."""
