"""Whole pipelines that one command runs."""
