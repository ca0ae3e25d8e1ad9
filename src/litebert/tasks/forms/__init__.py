"""Kinds of tasks: examples to model inputs, outputs to predictions."""
