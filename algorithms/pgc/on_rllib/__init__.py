"""Private gradient collection as an algorithm of RLlib: the parts shared by all its algorithms."""
