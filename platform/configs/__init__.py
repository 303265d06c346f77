"""Config files, their grids, and the experiments that they describe."""
