"""The phases of one online step: score, propose, merge, split."""
