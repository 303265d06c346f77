"""Statistics of a linear model: noisy Gram matrices, one message from every user."""
