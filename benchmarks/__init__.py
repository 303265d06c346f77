"""Our implementations against straightforward ones and against public peers, as ratios of one run."""
