import hashlib

print(hashlib.sha256(b"abc").hexdigest()[:12])

# expect stdout:
# | ba7816bf8f01
