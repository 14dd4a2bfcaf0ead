"""Pure mathematics, written once: numpy in, numpy out; no classes with behaviour, no input or output."""
