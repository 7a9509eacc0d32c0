"""The vector-Jacobian products of the definitions in float64, with the error that a contract allows on each.

A framework may keep what the forward pass computed or compute it again, fuse both or neither, and sum in any order. The
bounds therefore follow the quantities that any of these has to form, and take the larger error where there is a
choice. They are stated for float32 and float64; in half precision only what is exactly zero is said. Those of a
composition carry the errors of the forward pass along, through every layer and back (pullbacks).
"""
