from google.cloud import storage
print('imported')

# expect stdout:
# | imported
# limits: monty
