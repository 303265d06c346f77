"""The reproduction of [TH23], MA-LDP: its claims on privacy and regret, and Figure 1, from our runs."""
