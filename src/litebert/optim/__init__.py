"""Optimizers and learning-rate schedules with the official arithmetic."""
