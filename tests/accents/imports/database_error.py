import psycopg2
try:
    psycopg2.connect('x')
except psycopg2.Error:
    print('no database')

# expect stdout:
# | no database
# limits: monty
