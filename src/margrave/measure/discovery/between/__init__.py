"""What columns have to do with each other: relations of numbers and dates, and numbers that dates tell."""
