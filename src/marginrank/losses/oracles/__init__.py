"""Exact argmax of loss plus score over rankings: arrays in, arrays out."""
