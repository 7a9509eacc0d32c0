"""Three independent writings of the specification: NumPy for reading, PyTorch and JAX for use."""
