"""Pipeline files: reads them, runs their steps, and remembers them so that none runs twice."""
