"""How sure numbers over seeds are: intervals, bands of whole curves, tests between cells."""
