"""Quadratic programs of cutting planes."""
