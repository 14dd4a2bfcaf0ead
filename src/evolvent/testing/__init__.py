"""Public conformance checks: what comes from outside (an environment, a rule, a store) can prove itself here."""
