"""Documents as blocks of text, and their renderers: terminal and HTML."""
