"""What columns have to do with each other: relations of numbers and dates, columns that follow from others,
and numbers that dates tell."""
