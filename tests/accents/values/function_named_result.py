def result():
    return 1


print(result())

# expect stdout:
# | 1
