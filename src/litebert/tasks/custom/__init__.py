"""A user's own task, described by a file."""
