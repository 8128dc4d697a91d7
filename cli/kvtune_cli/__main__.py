"""`python -m kvtune_cli` is the `kvtune` command."""

import sys

INTERRUPTED = 130
"""As in exits.py, which is not there yet while the command is being loaded."""


def main() -> None:
    """Load the command and run it; Ctrl-C while it is being loaded ends it without a traceback."""
    try:
        from kvtune_cli.main import main as kvtune

        kvtune()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
