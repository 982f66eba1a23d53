"""Standard-library changes that a program sees."""
