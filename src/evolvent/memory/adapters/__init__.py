"""Other memories as candidates of ``Memory.recall(task, candidates=…)``: one a file. Each reads, and writes nothing."""
