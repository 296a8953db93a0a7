"""Changes of a session other than new fragments: removal, decisions, revision."""
