"""The demo of `make demo`: a program, the tools that it calls, and a page that shows what happened."""
