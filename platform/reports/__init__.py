"""Records, certificates and registries, as curves, figures, tables and text."""
