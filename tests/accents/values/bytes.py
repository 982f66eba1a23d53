b"\x00\xff" + await blob()

# expect value: b'\x00\xff\x01\x02'
# expect calls: 1
# expect hints:
# | one call only: a direct call of 'blob' would do
