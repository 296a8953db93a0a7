"""Pictures for people: groupings of points, and online clustering as it happens."""
