"""One attack in each module: what it says, and `attack`, which goes on until it is ended."""
