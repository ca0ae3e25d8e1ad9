"""Things every other package stands on: errors, configuration, files, randomness, run folders."""
