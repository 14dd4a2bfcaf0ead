"""Networks over the tokens of an attempt, causal: attention, and selective state-space scans."""
