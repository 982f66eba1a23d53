"""`python -m toolfold` is the command `toolfold`."""

from toolfold.doors.cli import main

if __name__ == "__main__":
    main()
