"""Benchmarks of npyflow against what people use today. Run ``python -m benchmarks --help``."""
