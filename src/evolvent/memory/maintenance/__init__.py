"""Looking inside a memory and mending it: audit, history, quarantine, rollback, compact, verify, copies elsewhere."""
