"""margrave: differentially private releases of tables, through one guarded door."""

__version__ = "0.1.0.dev0"
