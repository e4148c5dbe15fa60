"""Judged queries in memory, and the files they come from."""
