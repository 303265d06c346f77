"""MLflow runs of sweeps and their store."""
