"""What is found out about the columns, from the same budget as all else: kinds, ranges, bins, values,
relations.
"""
