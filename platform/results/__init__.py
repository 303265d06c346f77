"""Files, folders and locks of sweeps, and the identity of a sweep's name."""
