"""The command line: parses and prints, no logic."""
