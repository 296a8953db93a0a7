"""What a user does with KBForge, one module a use case, without the command line."""
