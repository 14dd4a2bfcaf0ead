"""Reports and pages: one file of HTML each, nothing loaded from elsewhere."""
