"""Many processes: the only package that names torch.distributed."""
