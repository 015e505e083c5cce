"""`python -m windowgrad`: the command, also where its script is not on the path."""

from windowgrad.cli import main

if __name__ == "__main__":
    main()
