"""Which Python each code mode speaks: `python -m bench.languages`.

`programs/` has short programs in the accents that models write, with what each must print and answer.
Every peer gets them unchanged, but for its own spelling of a tool call and of a result.
"""
