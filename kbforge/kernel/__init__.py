"""The kernel: the clustering step in C++, how it is built, and how Python calls it."""
