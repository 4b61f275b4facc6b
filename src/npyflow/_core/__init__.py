"""Errors, specs, structures, casts and buffers: what every other layer stands on. NumPy only."""
