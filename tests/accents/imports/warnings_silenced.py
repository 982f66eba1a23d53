import warnings, urllib3
from urllib3.exceptions import InsecureRequestWarning
urllib3.disable_warnings()
warnings.simplefilter('ignore', InsecureRequestWarning)
print('quiet')

# expect stdout:
# | quiet
# limits: monty
