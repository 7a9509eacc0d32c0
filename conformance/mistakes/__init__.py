"""The mistakes that are often made, by component, as variations of the reference: what a diagnosis tries."""
