import openai
client = openai.OpenAI(api_key='k')
try:
    client.chat.completions.create(model='m')
except openai.APIError:
    print('offline')

# expect stdout:
# | offline
# limits: monty
