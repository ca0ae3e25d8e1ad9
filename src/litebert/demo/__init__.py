"""The whole way, small, on text that is on every machine."""
