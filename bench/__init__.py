"""How fast the backends are: beside one another and beside Hugging Face transformers, on the same weights."""
