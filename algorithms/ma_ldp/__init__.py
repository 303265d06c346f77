"""MA-LDP of [TH23]: agents who learn a linear mixture MDP from locally private messages, and rewards by consensus."""
