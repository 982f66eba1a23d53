try:
    return 1
except Exception:
    print("never printed")
finally:
    print("finally")

# expect stdout:
# | finally
# expect value: 1
