"""Files: opened, read strictly, written atomically, locked and told apart by digests."""
