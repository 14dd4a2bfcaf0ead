"""Language models that only act: llama.cpp in this process, an endpoint, a script."""
