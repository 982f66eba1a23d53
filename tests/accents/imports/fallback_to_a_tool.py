import requests


def fetch(ticker):
    try:
        return requests.get(f'https://example.com/{ticker}', timeout=5).json()['price']
    except requests.exceptions.RequestException:
        return price(ticker)['price']


print([fetch(ticker) for ticker in 'AB'])

# expect stdout:
# | [10, 20]
# expect calls: 2
# limits: monty
