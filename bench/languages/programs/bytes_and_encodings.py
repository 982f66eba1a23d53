text = "naïve café"
data = text.encode("utf-8")
[len(text), len(data), data[:3].decode("utf-8", "ignore"), bytes([65, 66]).decode(), bytearray(b"ab").hex()]

# topic: syntax
# expect value: [10, 12, 'na', 'AB', '6162']
