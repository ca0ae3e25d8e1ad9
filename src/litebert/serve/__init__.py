"""Using a model: predictions from Python, from the command line and over HTTP."""
