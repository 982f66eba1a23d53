class Timer:
    def __enter__(self):
        print("in")
        return 7

    def __exit__(self, *exc):
        print("out")


with Timer() as seven:
    print(seven)

# expect stdout:
# | in
# | 7
# | out
