import sys
from pathlib import Path

package = Path("billing_parts")
package.mkdir(exist_ok=True)
(package / "__init__.py").write_text("from .tax import with_tax\n")
(package / "tax.py").write_text("def with_tax(amount):\n    return round(amount * 1.2, 2)\n")
sys.path.insert(0, str(Path.cwd()))
from billing_parts import with_tax

[with_tax(order["amount"]) for order in await get_orders(user_id="u1")]

# topic: files
# expect value: [6.0, 14.4, 36.0]
