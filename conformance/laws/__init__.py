"""The laws that are more than one comparison with the reference, by component."""
