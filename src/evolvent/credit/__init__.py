"""Credit rules: one published rule per file, each a pure function from a group of episodes to a ledger."""
