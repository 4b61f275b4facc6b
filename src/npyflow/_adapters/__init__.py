"""The only modules that import TensorFlow."""
