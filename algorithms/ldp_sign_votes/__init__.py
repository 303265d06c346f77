"""LDP-SignVotes: one randomised bit from every user, on which way one agent's action moved; our baseline for MA-LDP.

What is to be learned of a linear mixture MDP with known features is theta, which all stages and states share. Users
look at one agent each, in turns. The bit is the vote whether its action drives the state on: the most powerful test of
<a, theta_i> > 0 against < 0 near 0. Votes are linear in the action on average, so the server fits them by least
squares on the actions, which are public, and every agent acts by the signs of its fit.
"""

from __future__ import annotations

from dprl.algorithms.ldp_sign_votes.algorithm import LDPSignVotesConfig

__all__ = ["LDPSignVotesConfig"]
