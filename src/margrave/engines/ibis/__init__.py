"""Tables that stay where they are and are counted there, through Ibis. Not private."""
