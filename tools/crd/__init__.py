"""From the types of `api/` to CustomResourceDefinitions."""
