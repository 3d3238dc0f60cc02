"""Let `python -m holdfast` be the `holdfast` command.

Nothing else lives here.
"""

from holdfast.cli.main import main

if __name__ == "__main__":
    main()
