"""Episodic memory with learned values: recall what helped, settle what came of it, remember what was new."""
