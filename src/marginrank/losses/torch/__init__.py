"""Losses whose scores and slopes stay in the memory of a GPU; they need PyTorch and Triton."""
