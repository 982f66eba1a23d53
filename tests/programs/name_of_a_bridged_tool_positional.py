from tools import mcp__financial_data__query as query

await query("select 2")

# expect value: [{'sql': 'select 2'}]
# expect calls: 1
