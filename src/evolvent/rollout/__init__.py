"""Environment × model × memory → ``Episode``: one attempt (``attempt``) and a lifelong stream of them (``lifelong``)."""
