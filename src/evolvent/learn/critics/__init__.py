"""Values for language models: of tokens, of utterances, soft Q functions, progress."""
