"""Environment × model × memory → ``Episode``: one attempt, and a lifelong stream of attempts."""
