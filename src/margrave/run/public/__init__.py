"""What is public in a run: columns of the table, and rows from elsewhere."""
