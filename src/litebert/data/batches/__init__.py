"""Token shards to training batches."""
