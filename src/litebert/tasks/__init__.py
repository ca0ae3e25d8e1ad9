"""Tasks without torch: examples, features, decoding and official metrics, for training and serving."""
