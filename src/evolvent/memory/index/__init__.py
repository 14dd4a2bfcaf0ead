"""Finding by similarity: exact vectors, mapped from a file in large stores, and a graph above 100,000."""
