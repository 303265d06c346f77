"""Content and files of `dprl report`."""
