"""The executable definition in float64: every value comes with the error that a contract allows."""
