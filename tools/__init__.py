"""Writers of generated files. Not shipped."""
