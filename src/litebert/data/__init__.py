"""From raw text to token shards, and from token shards to training examples."""
