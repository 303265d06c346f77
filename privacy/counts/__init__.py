"""Tables of counts: what a tabular learner gets of its users, through which noise, with what error."""
