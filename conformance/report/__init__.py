"""Views of a record: terminal, Markdown, JSON."""
