"""Sources: files of many formats in, fragments out."""
