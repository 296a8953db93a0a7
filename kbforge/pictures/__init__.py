"""Pictures for people: the canvas, and trees of merges."""
