"""`python -m litebert`, the form that torchrun starts."""

from litebert.cli import main

if __name__ == "__main__":
    main()
