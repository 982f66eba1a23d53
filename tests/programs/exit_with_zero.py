import sys

print("leaving")
sys.exit(0)

# expect stdout:
# | leaving
