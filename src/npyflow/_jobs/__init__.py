"""Whole jobs on flows."""
