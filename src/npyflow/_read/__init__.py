"""Sources, order and layout put together: NumPy batches in borrowed buffers."""
