"""Where examples are: listing, scanning, joining and reading. Nothing here knows about order or batches."""
