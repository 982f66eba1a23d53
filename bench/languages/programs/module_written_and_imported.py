import sys
from pathlib import Path

Path("shop_helpers.py").write_text("RATE = 2\n\ndef double(n):\n    return n * RATE\n")
sys.path.insert(0, str(Path.cwd()))
import shop_helpers
from shop_helpers import double

[double((await get_price(ticker="A"))["price"]), shop_helpers.RATE]

# topic: files
# expect value: [20, 2]
