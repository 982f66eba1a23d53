"""Looks in its root for what the program before it left there."""

STOPPED_BY = {"own process"}
BEFORE = """
import os

for folder in [os.getcwd()] if IS_CONTROL else ["/", "/mnt", "/content", "/workspace", "/home/user"]:
    open(f"{folder}/left behind", "w").close()
"""

for folder in [os.getcwd()] if IS_CONTROL else ["/", "/mnt", "/content", "/workspace", "/home/user"]:
    if "left behind" in os.listdir(folder):
        print("REACHED")
