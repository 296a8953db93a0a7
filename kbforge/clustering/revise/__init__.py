"""What changes a session beside new fragments: removal, decisions, revision."""
