"""Documents as blocks of text, and their renderers: terminal, HTML and Markdown."""
