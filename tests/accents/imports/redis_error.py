import redis
try:
    redis.Redis(host='h').get('k')
except redis.ConnectionError:
    print('no redis')

# expect stdout:
# | no redis
# limits: monty
