b"\x00\xff" + await blob()

# expect value: b'\x00\xff\x01\x02'
# expect calls: 1
