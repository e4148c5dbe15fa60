"""Threads, memory, files, compiled kernels and option objects: what knows nothing of ranking."""
