"""Address books for KBForge: reads vCards, writes N-Quads."""
