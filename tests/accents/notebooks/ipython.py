from IPython.display import HTML, Markdown, clear_output, display

try:
    get_ipython()
except NameError:
    print("no shell")
clear_output(wait=True)
display(HTML("<b>bold</b>"), Markdown("# title"), 3)

# expect stdout:
# | no shell
# | <b>bold</b>
# | # title
# | 3
# limits: monty
