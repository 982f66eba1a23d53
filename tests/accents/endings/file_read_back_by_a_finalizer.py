import atexit


def show():
    print(open("notes.txt").read())


atexit.register(show)
out = open("notes.txt", "w")
out.write("held back")
out.flush()

# expect stdout:
# | held back
# expect files: notes.txt
# limits: monty
