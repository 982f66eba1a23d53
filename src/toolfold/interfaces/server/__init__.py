"""Server: sockets, connection limits and shutdown, shared by the interfaces that listen."""
