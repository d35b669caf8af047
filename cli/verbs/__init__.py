"""One verb a file. Imported when it is used."""
