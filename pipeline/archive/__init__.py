"""The files of an archive, and the reads from them."""
