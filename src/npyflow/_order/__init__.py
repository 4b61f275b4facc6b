"""Which examples, in which order, how many at a time: integers only, no I/O."""
