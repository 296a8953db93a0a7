"""Sessions as plain data: pages, checkpoints of them, and sessions that fetch what they need."""
