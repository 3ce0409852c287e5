"""What a table may contain: column kinds, schema, domain, encoding. Public knowledge."""
