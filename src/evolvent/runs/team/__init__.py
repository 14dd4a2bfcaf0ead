"""A run of a team learner."""
