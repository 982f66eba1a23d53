tools.hr.get_users()[0]

# expect value: {'id': 'u1', 'name': 'Ada', 'team': 'core'}
# expect calls: 1
