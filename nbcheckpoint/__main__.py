"""`python -m nbcheckpoint` is the command `nbcheckpoint`."""

from nbcheckpoint.cli import main

if __name__ == "__main__":
    main()
