import requests
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry
s = requests.Session()
s.mount('https://', HTTPAdapter(max_retries=Retry(total=3)))
s.close()
print('ready')

# expect stdout:
# | ready
# limits: monty
