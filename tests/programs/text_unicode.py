print("Zoë 日本 🎈")
await echo("naïve ☃")

# expect stdout:
# | Zoë 日本 🎈
# expect value: 'naïve ☃'
# expect calls: 1
