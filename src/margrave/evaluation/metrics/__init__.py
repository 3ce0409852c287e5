"""The metrics, each run on a Task, and the table of them. **Not private**."""
