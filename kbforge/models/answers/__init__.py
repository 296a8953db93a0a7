"""What people say of pairs of fragments: which pairs to ask about, and what the answers change."""
