"""One small file for each peer: how it is opened, and how it is given a program."""
