"""What suits a file, and how sure it is: likelihood, alpha, confidence map, and why."""
