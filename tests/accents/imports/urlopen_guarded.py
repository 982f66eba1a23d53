from urllib.error import URLError
from urllib.request import Request, urlopen

try:
    print(urlopen(Request('https://example.com'), timeout=1).read())
except URLError as error:
    print('offline:', type(error).__name__)

# expect stdout:
# | offline: URLError
# limits: monty
