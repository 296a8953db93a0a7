"""The judge: which likelihood and which alpha suit a file, told from the file without labels."""
