"""TODO: what this room holds, and what it may import."""
