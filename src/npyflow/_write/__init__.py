"""Writing flows: shards of one format or another, as jobs that can be trusted."""
