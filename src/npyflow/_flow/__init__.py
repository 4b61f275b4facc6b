"""The facade: what users hold in their hands."""
