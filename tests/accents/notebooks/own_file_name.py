import os

here = os.path.dirname(os.path.abspath(__file__))
print(os.path.basename(__file__), os.path.isdir(here))

# expect stdout:
# | program.py True
# limits: monty
