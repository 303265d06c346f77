"""Benchmarks of our implementations against straightforward ones and public peers, as ratios within one run."""
