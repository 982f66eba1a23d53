import subprocess
from unittest import mock

with mock.patch('subprocess.run') as run:
    run.return_value.stdout = 'clean'
    print(subprocess.run(['git', 'status']).stdout)

# expect stdout:
# | clean
# limits: monty
