"""Tasks without torch: examples, features, decoding and metrics, for training and serving."""
