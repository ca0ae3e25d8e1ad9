"""Adapting a model that exists to other text: a new vocabulary on old weights."""
