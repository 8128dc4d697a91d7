"""`python -m kvtune_cli` is the `kvtune` command."""

from kvtune_cli.main import main

if __name__ == "__main__":
    main()
