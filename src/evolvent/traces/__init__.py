"""Recorded attempts of other harnesses as ``Episode``s: a reader a format, one builder that makes every decision."""
