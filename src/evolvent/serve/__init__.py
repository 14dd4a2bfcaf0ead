"""A memory over HTTP: one process for a store, one writer, acknowledged when it is on disk."""
