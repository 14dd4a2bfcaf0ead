"""One attempt: decisions, tools, memory, budgets, several agents, and the record of it all."""
