"""What the pages of several kinds of run are made of: updates, tasks, samples, memories."""
