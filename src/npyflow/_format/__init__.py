"""The ``.npy`` format: bytes in, a `Header` out."""
