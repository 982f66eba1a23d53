def close():
    try:
        return "value"
    finally:
        print("closed")


print(close())

# expect stdout:
# | closed
# | value
