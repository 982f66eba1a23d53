import base64
import hashlib

[hashlib.sha256(b"toolbox").hexdigest()[:12], base64.b64encode("né".encode()).decode(), base64.b64decode("aGk=").decode()]

# topic: modules
# expect value: ['dd221319b058', 'bsOp', 'hi']
