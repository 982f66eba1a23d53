from functions import get_users, price

print(len(get_users()))

# expect rejected: line 1: no module 'functions'; write 'from tools import get_users, price', or call them without an import
