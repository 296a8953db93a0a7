"""Files: strict reading, atomic writing, locks and digests."""
