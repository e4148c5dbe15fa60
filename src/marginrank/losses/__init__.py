"""Losses as functions of scores: ξ and its derivative, for many queries at once."""
