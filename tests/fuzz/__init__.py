"""Fuzzers: every format, mutated from a seed, against a reference reader or the laws that content has to keep."""
