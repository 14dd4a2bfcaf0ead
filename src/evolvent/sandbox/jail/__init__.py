"""The fork server, the slots it makes, and what confines programs: on the standard library alone.

The server is started with ``sandbox/`` as its path, so that these files are its package ``jail``; it holds no numpy, no
settings of the user and no tests, because every program that it forks could read them.
"""
