import re

for name in ["camelCaseText", "HTTPServer", "getUserID"]:
    text = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
    print(re.sub("([a-z0-9])([A-Z])", r"\1_\2", text).lower())

# expect stdout:
# | camel_case_text
# | http_server
# | get_user_id
