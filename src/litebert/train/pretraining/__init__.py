"""Pretraining: masked words and sentence order on token shards."""
