"""Private gradient collection as an algorithm of RLlib: what all of its algorithms share."""
