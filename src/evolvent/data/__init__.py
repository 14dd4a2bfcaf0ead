"""What to learn from: calls of functions as rows, masked names, requests that no tool serves."""
