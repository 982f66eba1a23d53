"""Looks for what the program before it left behind."""

STOPPED_BY = {"own process"}
BEFORE = """
import builtins, os, sys, tempfile

builtins.left_behind = sys.left_behind = "canary of the last program"
os.environ["LEFT_BEHIND"] = "canary of the last program"
sys.modules["left_behind"] = builtins
for folder in (os.getcwd(), tempfile.gettempdir()):
    open(f"{folder}/left behind", "w").close()
"""

import builtins, sys, tempfile

places = [vars(builtins), vars(sys), os.environ, sys.modules]
if any("left_behind" in place or "LEFT_BEHIND" in place for place in places):
    print("REACHED")
for folder in (os.getcwd(), tempfile.gettempdir()):
    if "left behind" in os.listdir(folder):
        print("REACHED")
