"""Where memories live: SQLite or PostgreSQL behind one ``Store``; schema, transactions, whose turn it is."""
