"""The papers' experiments and claims: their numbers beside ours."""
