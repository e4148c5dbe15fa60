"""Losses in PyTorch, for scores on any of its devices."""
