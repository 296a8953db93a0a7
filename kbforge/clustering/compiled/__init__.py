"""A session whose steps the compiled kernel takes."""
