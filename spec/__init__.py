"""The specification: clauses, abstract interfaces, and the executable definition with its error bounds."""
