"""How to choose among memories and how to learn their values: one file a policy; see ``memory/rule.py``."""
