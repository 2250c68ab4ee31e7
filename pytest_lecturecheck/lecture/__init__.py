"""Read lecture files: which files are lectures, their cells with source lines, and what their repository says."""
