"""Papers' experiments, run again: the published numbers beside ours."""
