"""Privacy curves and their composition."""
