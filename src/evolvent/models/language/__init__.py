"""A language model in torch whose weights can be trained: loading, sampling, log-probabilities, adapters."""
