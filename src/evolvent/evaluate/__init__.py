"""Numbers with intervals: live output, the report of a run, comparison of runs."""
