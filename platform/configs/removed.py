"""Keys and names of earlier versions that are gone, and what to write instead."""

from __future__ import annotations

REMOVED: dict[str, str] = {
    "algorithm.name=best_ucb_vi": "write bernstein_vi",
    "env.name=pursuit": "take soccer",
    "env.version": "leave it out: the numbers are those of Osband, Russo and Van Roy",
    "env.after_goal": "leave it out: play restarts after a goal",
    "env.name=frozen_lake": "write name: gymnasium, env_id: FrozenLake-v1, horizon: 20",
    "env.env_id=Blackjack-v1": "take FrozenLake-v1, CliffWalking-v1 or Taxi-v3",
    "env.env_id=dprl/AcrobotMasses-v0": "write Acrobot-v1, without masses",
    "algorithm.visits_per_user": "leave it out: all visits are counted",
    "privacy.families=marginal": "write one_hot",
    "privacy.mechanism=symmetric_unary_encoding": "write sampled_optimized_unary_encoding, or auto",
    "privacy.mechanism=sampled_symmetric_unary_encoding": "write sampled_optimized_unary_encoding, or auto",
    "privacy.mechanism=optimized_unary_encoding": "write sampled_optimized_unary_encoding",
    "privacy.mechanism=direct_encoding": "write sampled_direct_encoding",
    **{
        f"privacy.counter={name}": "write counter: buffered_toeplitz"
        for name in ("honaker", "square_root", "normalized_square_root")
    },
    "algorithm.name=ldp_sign_votes": "take ma_ldp, the algorithm on linear mixture MDPs",
    "algorithm.success_memory": "leave it out: bits on scores are no longer sent, and halving lowers the step",
    "algorithm.success_full": "leave it out: bits on scores are no longer sent, and halving lowers the step",
    "privacy.release_scores=private": "write simulator, or none for real users",
    "privacy.score_epsilon": "leave it out: bits on scores are no longer sent",
    "privacy.scaling": "leave it out: the estimate is the paper's; scale the learning rate",
    "privacy.target_score": "leave it out: bits on scores are no longer sent",
    "algorithm.certify_policy": "leave it out: offline_vi gives a lower bound on the value of its policy",
    "algorithm.known_rewards": "leave it out: users count their losses",
    "algorithm.consistency": "leave it out: counts are made consistent where that is proved",
    "algorithm.graph=random_edges": "write complete, ring, star or line",
    "algorithm.graph=gossip": "write complete, ring, star or line",
    "algorithm.edge_probability": "leave it out: graphs are fixed",
    "algorithm.local_epochs": "leave it out: a user sends one gradient",
    "algorithm.local_rate": "leave it out: a user sends one gradient",
    "algorithm.ratio_clip": "leave it out: a user sends one gradient",
    "algorithm.gossip_over": "leave it out: graphs are fixed",
}
"""Remedies by 'section.key', or by 'section.key=value' if only that value is gone."""
