import uuid
from urllib.parse import parse_qs, quote, urlencode, urlparse

url = "https://example.com/a?x=1&y=two#top"
[str(uuid.uuid5(uuid.NAMESPACE_DNS, "example.com")), len(str(uuid.uuid4())), urlparse(url).netloc, parse_qs(urlparse(url).query), quote("a b/c"), urlencode({"q": "x y"})]

# topic: modules
# expect value: ['cfbff0d1-9375-5685-968c-48ce8b15ae17', 36, 'example.com', {'x': ['1'], 'y': ['two']}, 'a%20b/c', 'q=x+y']
