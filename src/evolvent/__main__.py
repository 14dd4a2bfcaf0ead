"""``python -m evolvent``: the command line."""

from evolvent.cli import main

main()
