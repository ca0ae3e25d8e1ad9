"""A model folder answers: inputs, batches, runtimes, questions, scores."""
