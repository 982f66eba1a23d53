import re


def slug(text):
    text = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    return re.sub(r"(\d+)-(\d+)", r"\1_\2", text)


print([slug(text) for text in ["Hello, World!", "From 10 to 20", "1-2"]])

# expect stdout:
# | ['hello-world', 'from-10-to-20', '1_2']
