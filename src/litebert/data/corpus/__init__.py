"""Raw text to token shards."""
