import io

import pandas as pd

text = "name,score\nada,3\nbo,5\n"
frame = pd.read_csv(io.StringIO(text))
frame[frame["score"] > 3].to_dict("records")

# topic: data
# expect value: [{'name': 'bo', 'score': 5}]
