"""The front: what a person imports and types."""
