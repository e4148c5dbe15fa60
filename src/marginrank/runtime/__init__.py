"""Threads, memory, files, compiled kernels and option objects; nothing here depends on ranking."""
