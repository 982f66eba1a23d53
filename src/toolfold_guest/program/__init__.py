"""Program execution inside the guest: compile, namespace, event loop, output, end."""
