"""Function calling for models that have none: prompt out, incremental parser in."""
