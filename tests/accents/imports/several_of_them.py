import httpx
import aiohttp, boto3, psycopg2
print(1)

# expect stdout:
# | 1
# limits: monty
