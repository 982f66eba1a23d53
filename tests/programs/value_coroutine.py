pending = price("A")
{"pending": [pending]}

# expect problem: value: value['pending'][0] is a 'coroutine', which cannot be sent; make it JSON values or bytes first
