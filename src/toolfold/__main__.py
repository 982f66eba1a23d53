"""`python -m toolfold` is the command `toolfold`."""

from toolfold.interfaces.cli import main

if __name__ == "__main__":
    main()
