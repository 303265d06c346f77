"""What a sweep tells MLflow, and where MLflow keeps it."""
