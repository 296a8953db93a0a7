"""A session whose steps the compiled kernel takes; what else is asked of it goes to the reference."""
