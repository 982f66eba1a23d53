rows = await mcp__financial_data__query(sql="select 1")
rows

# expect value: [{'sql': 'select 1'}]
# expect calls: 1
