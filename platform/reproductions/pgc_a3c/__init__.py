"""The reproduction of [OT20], PGC-A3C: its tables, figures and sentences from our trials."""
