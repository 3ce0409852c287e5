"""`python -m margrave` is the command line."""

from margrave.cli import main

if __name__ == "__main__":
    main()
