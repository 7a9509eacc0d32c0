"""How each component shows its level, conventions and features."""
