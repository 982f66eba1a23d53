import subprocess

try:
    out = subprocess.check_output(['git', 'log'])
except (OSError, subprocess.CalledProcessError):
    out = b'no git'
print(out.decode())

# expect stdout:
# | no git
# limits: monty
