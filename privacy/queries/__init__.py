"""Queries: each kind of data that users send, with its kernels on either side of a message."""
