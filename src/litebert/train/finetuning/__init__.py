"""Fine-tuning on a task."""
