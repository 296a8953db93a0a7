"""The kernel: the clustering step in C++, its build, and its Python binding."""
