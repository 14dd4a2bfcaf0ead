"""A run of a memory over a stream of tasks."""
