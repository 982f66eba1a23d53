import socket
import subprocess
import urllib.request

print(socket.AF_INET.name, len(get_users()))

# expect stdout:
# | AF_INET 3
# expect calls: 1
# expect hints:
# | one call only: a direct call of 'get_users' would do
# limits: monty
