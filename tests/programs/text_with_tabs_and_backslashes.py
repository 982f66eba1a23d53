path = r"C:\new\table"
joined = "a" \
    "b"
print(path, joined, "tab\there")

# expect stdout:
# | C:\new\table ab tab	here
