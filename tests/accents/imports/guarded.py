try:
    import requests
except ImportError:
    requests = None
print(requests is not None)

# expect stdout:
# | True
# limits: monty
