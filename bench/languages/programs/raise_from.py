def load(text):
    try:
        return int(text)
    except ValueError as error:
        raise RuntimeError(f"bad number {text!r}") from error

try:
    load("x")
except RuntimeError as error:
    answer = [str(error), type(error.__cause__).__name__]
answer

# topic: syntax
# expect value: ["bad number 'x'", 'ValueError']
