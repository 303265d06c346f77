"""What `dprl report` writes: the page that answers which algorithm at which epsilon, and a Markdown form."""
