try:
    import no_such_library
except ImportError:
    no_such_library = None
print(no_such_library)

# expect stdout:
# | None
