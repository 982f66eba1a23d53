import string
import textwrap

template = string.Template("Dear $name")
[textwrap.shorten("one two three four", width=12), textwrap.dedent("  a\n  b"), template.substitute(name="Ada"), string.ascii_lowercase[:3]]

# topic: modules
# expect value: ['one [...]', 'a\nb', 'Dear Ada', 'abc']
