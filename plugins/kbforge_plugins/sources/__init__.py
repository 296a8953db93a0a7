"""Sources: read fragments from files of many formats."""
