"""What a pipeline costs on the files and the machine at hand, and what would be better."""
