"""Kernel functions of all features together."""
