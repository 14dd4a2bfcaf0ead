"""A run of a language learner."""
