"""Gradients: what agents of a deep learner send, each up to a cap, and what a server makes of it."""
