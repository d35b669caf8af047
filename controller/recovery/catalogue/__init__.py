"""The kinds of lines, as data, by who prints them."""
