"""LDP-SignVotes: every user sends one randomized bit about one agent's action; our baseline for MA-LDP.

A linear mixture MDP with known features has one unknown, theta, shared by all stages and states. Users look at one
agent each, in turns. The bit is a vote on the direction of its action: the most powerful test of <a, theta_i> > 0
against < 0 near 0. On average, votes are linear in the action. The server fits them by least squares on the public
actions, and every agent acts by the signs of its fit.
"""

from __future__ import annotations

from dprl.algorithms.ldp_sign_votes.algorithm import LDPSignVotesConfig

__all__ = ["LDPSignVotesConfig"]
