"""Public conformance checks: what comes from outside (an environment, a model, a credit rule) can prove itself here."""
