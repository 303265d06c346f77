"""Sweeps as jobs of a running Ray cluster: this code is shipped, its log followed, its exit code returned."""
