def report():
    return "ran"

if __name__ == "__main__":
    print(report())

# topic: syntax
# expect stdout:
# | ran
