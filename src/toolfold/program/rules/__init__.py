"""Rules of the static check, one module for each kind of mistake."""
