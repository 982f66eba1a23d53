import atexit

atexit.register(print, "still said")
open_file = open("log.txt", "w")
open_file.write("before the error")
print(1 / 0)

# expect stdout:
# | still said
# expect error:
# | Traceback (most recent call last):
# |   File "<program>", line 6, in __main__
# |     print(1 / 0)
# | ZeroDivisionError: division by zero
# expect files: log.txt
# limits: monty
